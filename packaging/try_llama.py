"""Reads a prompt with the installed llama.cpp, to see that this processor runs it. Started by the set-up in a process
of its own, under the environment's interpreter, because a wrong instruction kills the process.
"""

from __future__ import annotations

import sys

import llama_cpp

PROMPT = b"The miller ground wheat, rye, barley and oats between two stones. " * 8  # matrices, not only vectors


def main(model: str) -> None:
    """Evaluates the prompt with the model file at `model`."""
    llama = llama_cpp.Llama(model_path=model, n_ctx=512, n_batch=512, verbose=False)
    llama.eval(llama.tokenize(PROMPT))
    sys.stdout.write(llama_cpp.llama_print_system_info().decode() + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
