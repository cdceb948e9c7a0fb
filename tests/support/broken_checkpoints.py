"""Makes checkpoints that are broken or mean harm, each from a seed: folders of Hugging Face's layout, and GGUF files.

A sound tiny model is written and one thing in it is spoiled. Some of it is harmless, and must be converted right.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load_file, save_file

import hostile_gguf
import tiny_gguf
from runtime.tokenizer import FolderTokenizer
from tiny_tokenizers import write_tokenizer

D, HEADS, KV, FF, LAYERS = 32, 4, 2, 64, 2
WEIGHTS, CONFIG, TOKENIZER = "model.safetensors", "config.json", "tokenizer.json"
_ODD: tuple[Any, ...] = (None, 0, -1, 1 << 40, 10**30, 1e300, 2.5, "8", "", [], [1, 2], {}, True, "\x1b[31m\n",
                        math.nan)  # fmt: skip
_KEYS = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
         "num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "rope_theta", "head_dim", "hidden_act",
         "tie_word_embeddings", "attention_bias", "rope_scaling", "model_type", "sliding_window",
         "quantization_config")  # fmt: skip


class Broken(NamedTuple):
    """A checkpoint; `harmless` where it must be converted."""

    name: str
    path: Path
    harmless: bool


def tensors(n_rows: int) -> dict[str, np.ndarray]:
    """Returns random weights under Hugging Face's names."""
    rng = np.random.default_rng(0)
    shapes = {"model.embed_tokens.weight": (n_rows, D), "model.norm.weight": (D,), "lm_head.weight": (n_rows, D)}
    for layer in range(LAYERS):
        prefix, kv = f"model.layers.{layer}.", KV * D // HEADS
        shapes |= {
            prefix + "input_layernorm.weight": (D,), prefix + "post_attention_layernorm.weight": (D,),
            prefix + "self_attn.q_proj.weight": (D, D), prefix + "self_attn.k_proj.weight": (kv, D),
            prefix + "self_attn.v_proj.weight": (kv, D), prefix + "self_attn.o_proj.weight": (D, D),
            prefix + "mlp.gate_proj.weight": (FF, D), prefix + "mlp.up_proj.weight": (FF, D),
            prefix + "mlp.down_proj.weight": (D, FF),
        }  # fmt: skip
    return {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in shapes.items()}


def write_sound(folder: Path) -> Path:
    """Writes a whole tiny Llama-type model."""
    write_tokenizer(folder, "byte-level", config={"chat_template": "{{ messages }}"})
    n_rows = FolderTokenizer(folder).size
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": n_rows, "hidden_size": D,
        "intermediate_size": FF, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
    }  # fmt: skip
    (folder / CONFIG).write_text(json.dumps(config))
    save_file(tensors(n_rows), folder / WEIGHTS)
    return folder


def broken(folder: Path, count: int, *, seed: int = 0) -> Iterator[Broken]:
    """Yields so many checkpoints in `folder`, each kind in turn; each is gone when the next one comes."""
    sound = write_sound(folder / "sound")
    kinds = list(_KINDS.items())
    for number in range(count):
        name, spoil = kinds[number % len(kinds)]
        draw = random.Random(seed * 100_003 + number)
        path = folder / f"case-{number}"
        shutil.copytree(sound, path)
        said = spoil(path, draw)
        yield Broken(f"{number} {name}", said if isinstance(said, Path) else path, said is True)
        shutil.rmtree(path)


# --- what is spoiled: each returns True where the model must still be converted, or another path to open --------------

Spoil = Callable[[Path, random.Random], "bool | Path | None"]


def _changed(path: Path, change: Callable[[dict[str, np.ndarray]], Any]) -> None:
    weights = load_file(path / WEIGHTS)
    change(weights)
    save_file(weights, path / WEIGHTS)


def _config(path: Path, **values: Any) -> None:
    said = json.loads((path / CONFIG).read_text())
    (path / CONFIG).write_text(json.dumps(said | values))


def _cut(path: Path, draw: random.Random) -> None:
    name = draw.choice((WEIGHTS, CONFIG, TOKENIZER))
    content = (path / name).read_bytes()
    (path / name).write_bytes(content[: draw.randrange(len(content) - 1)])


def _gone(path: Path, draw: random.Random) -> None:
    (path / draw.choice((WEIGHTS, CONFIG, TOKENIZER))).unlink()


def _flipped_header(path: Path, draw: random.Random) -> bool | None:
    content = bytearray((path / WEIGHTS).read_bytes())
    (length,) = struct.unpack("<Q", content[:8])
    for _time in range(draw.randint(1, 6)):
        content[draw.randrange(8 + length)] ^= 1 << draw.randrange(8)
    (path / WEIGHTS).write_bytes(content)
    return None


def _lying_header(path: Path, draw: random.Random) -> None:
    content = (path / WEIGHTS).read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    name = draw.choice([key for key in header if key != "__metadata__"])
    lie = draw.choice((
        {"data_offsets": [0, 1 << 60]}, {"data_offsets": [-4, 4]}, {"data_offsets": [8, 4]}, {"shape": [1 << 62, 4]},
        {"shape": [-1]}, {"shape": "x"}, {"shape": [2] * 40}, {"dtype": "F7"}, {"dtype": 5}, {"data_offsets": [0.5, 8]},
    ))  # fmt: skip
    header[name] |= lie
    packed = json.dumps(header).encode()
    (path / WEIGHTS).write_bytes(struct.pack("<Q", len(packed)) + packed + content[8 + length :])


def _missing(path: Path, draw: random.Random) -> None:
    _changed(path, lambda weights: weights.pop(draw.choice(sorted(weights))))


def _additional(path: Path, draw: random.Random) -> None:
    name = draw.choice(("model.layers.0.mlp.scale", "x", "model.layers.9.mlp.up_proj.weight", "a\n\x1b[2Jb", "é" * 300))
    _changed(path, lambda weights: weights.update({name: np.ones((4, 4), np.float32)}))


def _ignorable(path: Path, draw: random.Random) -> bool:
    name = f"model.layers.{draw.randrange(LAYERS)}.self_attn.rotary_emb.inv_freq"
    _changed(path, lambda weights: weights.update({name: np.ones(4, np.float32)}))
    return True


def _prefixed(path: Path, draw: random.Random) -> bool:
    prefix = draw.choice(("module.", "_orig_mod.", "base_model.model."))
    save_file({prefix + name: each for name, each in load_file(path / WEIGHTS).items()}, path / WEIGHTS)
    return True


def _halved(path: Path, draw: random.Random) -> bool:
    save_file({name: each.astype(np.float16) for name, each in load_file(path / WEIGHTS).items()}, path / WEIGHTS)
    return True


def _reshaped(path: Path, draw: random.Random) -> None:
    def change(weights: dict[str, np.ndarray]) -> None:
        name = draw.choice(sorted(weights))
        each = weights[name]
        weights[name] = draw.choice((each[:-1], each.reshape(-1)[: each.size // 2], each[None], each[:0])).copy()

    _changed(path, change)


def _turned(path: Path, draw: random.Random) -> None:
    name = f"model.layers.{draw.randrange(LAYERS)}.mlp.down_proj.weight"
    _changed(path, lambda weights: weights.update({name: np.ascontiguousarray(weights[name].T)}))


def _whole_numbers(path: Path, draw: random.Random) -> None:
    name = f"model.layers.{draw.randrange(LAYERS)}.mlp.up_proj.weight"
    kind = draw.choice((np.int8, np.uint8, np.int32))
    _changed(path, lambda weights: weights.update({name: np.ones((FF, D), kind)}))


def _no_numbers(path: Path, draw: random.Random) -> None:
    def change(weights: dict[str, np.ndarray]) -> None:
        each = weights[draw.choice(sorted(name for name in weights if weights[name].ndim == 2))]
        each[draw.randrange(len(each)), draw.randrange(D)] = draw.choice((np.nan, np.inf, -np.inf))

    _changed(path, change)


def _odd_key(path: Path, draw: random.Random) -> None:
    _config(path, **{draw.choice(_KEYS): draw.choice(_ODD)})


def _other_size(path: Path, draw: random.Random) -> None:
    key = draw.choice(("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"))
    said = json.loads((path / CONFIG).read_text())[key]
    _config(path, **{key: draw.choice((said + 1, said * 2, max(said // 2, 1), 3))})


def _no_object(path: Path, draw: random.Random) -> None:
    name = draw.choice((CONFIG, TOKENIZER))
    deep = "[" * 100_000
    content = draw.choice((b"", b"[]", b"5", b"null", b"\xff\xfe{}", deep.encode(), b'{"a": ' + b"9" * 5000 + b"}"))
    (path / name).write_bytes(content)


def _strange_family(path: Path, draw: random.Random) -> None:
    _config(path, model_type=draw.choice(("strange", "", "../x", "llama\x00", "bart")), architectures=["Strange"])


def _index(path: Path, draw: random.Random) -> None:
    place = draw.choice(("gone.safetensors", "../../etc/passwd", "/etc/passwd", "", "a\x00b", 5, None, CONFIG))
    weights = dict.fromkeys(load_file(path / WEIGHTS), place)
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
    (path / WEIGHTS).unlink()


def _tokenizer_change(path: Path, draw: random.Random) -> None:
    said = json.loads((path / TOKENIZER).read_text())
    part = draw.choice(("model", "vocab", "merges", "added_tokens", "pre_tokenizer", "type"))
    odd = draw.choice(_ODD[:-1])
    if part in ("vocab", "merges", "type"):
        said["model"][part] = odd
    else:
        said[part] = odd
    (path / TOKENIZER).write_text(json.dumps(said))


def _vocabulary_change(path: Path, draw: random.Random) -> None:
    said = json.loads((path / TOKENIZER).read_text())
    vocab = said["model"]["vocab"]
    name = draw.choice(sorted(vocab))
    number = vocab.pop(name)
    if draw.random() < 0.5:
        vocab[name] = draw.choice((number + 1, 1 << 31, -1, 10**9))
    (path / TOKENIZER).write_text(json.dumps(said))


def _template(path: Path, draw: random.Random) -> None:
    said = json.loads((path / "tokenizer_config.json").read_text())
    said["chat_template"] = draw.choice((5, {}, [{"name": 3}], [1], "{% for %}", "{{" * 5000, None, "x" * 100_000))
    (path / "tokenizer_config.json").write_text(json.dumps(said))


def _ends(path: Path, draw: random.Random) -> None:
    (path / "generation_config.json").write_text(draw.choice((
        "{", "[]", '{"eos_token_id": [1, "x", null, -5, 99999999999]}', '{"eos_token_id": {"a": 1}}', ""))
    )  # fmt: skip


def _link(path: Path, draw: random.Random) -> None:
    target = path / draw.choice((WEIGHTS, CONFIG))
    target.unlink()
    if draw.random() < 0.5:
        target.symlink_to(target.name)  # to itself
    else:
        target.mkdir()


def _unreadable(path: Path, draw: random.Random) -> None:
    target = path / draw.choice((WEIGHTS, CONFIG, TOKENIZER))
    target.unlink()
    os.mkfifo(target)


def _pickle(path: Path, draw: random.Random) -> None:
    (path / WEIGHTS).unlink()
    harm = b"cos\nsystem\n(S'touch /tmp/quern-was-run'\ntR."
    (path / "pytorch_model.bin").write_bytes(draw.choice((harm, b"", b"PK\x03\x04" + b"\0" * 40, harm[:9])))


def _packed(path: Path, draw: random.Random) -> None:
    method = draw.choice(("gptq", "awq", "fp8", "bitsandbytes", "strange", 5, None))
    _config(path, quantization_config={"quant_method": method, "bits": draw.choice((4, 0, "x", 99)), "group_size": 0})


@cache
def _sound_gguf() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return tiny_gguf.write_tiny(Path(folder) / "model.gguf", n_layers=1, d_model=64, d_ff=64).read_bytes()


def _gguf_cut(path: Path, draw: random.Random) -> Path:
    content = _sound_gguf()
    (path / "model.gguf").write_bytes(content[: draw.randrange(len(content) - 1)])
    return path / "model.gguf"


def _gguf_mutant(path: Path, draw: random.Random) -> Path:
    ((_name, content),) = hostile_gguf.mutants(1, seed=draw.randrange(1 << 20))
    (path / "model.gguf").write_bytes(content)
    return path / "model.gguf"


def _gguf_handmade(path: Path, draw: random.Random) -> Path:
    _name, content = draw.choice(list(_handmade()))
    (path / "model.gguf").write_bytes(content)
    return path / "model.gguf"


@cache
def _handmade() -> tuple[tuple[str, bytes], ...]:
    return tuple(hostile_gguf.handmade())


_KINDS: dict[str, Spoil] = {
    "a cut file": _cut, "a missing file": _gone, "bits of the header flipped": _flipped_header,
    "a lying header": _lying_header, "a missing tensor": _missing, "an additional tensor": _additional,
    "a tensor without weights": _ignorable, "prefixed names": _prefixed, "16 bits": _halved,
    "another shape": _reshaped, "a turned matrix": _turned, "whole numbers": _whole_numbers,
    "no numbers": _no_numbers, "an odd setting": _odd_key, "another size": _other_size,
    "no JSON object": _no_object, "a strange family": _strange_family, "a lying index": _index,
    "an odd tokenizer": _tokenizer_change, "an odd vocabulary": _vocabulary_change, "an odd template": _template,
    "odd ends": _ends, "a link or folder in place of a file": _link, "a pipe in place of a file": _unreadable,
    "a pickle": _pickle, "an odd packing": _packed, "a cut GGUF file": _gguf_cut, "a GGUF mutant": _gguf_mutant,
    "a harmful GGUF file": _gguf_handmade, "another GGUF mutant": _gguf_mutant,
}  # fmt: skip
KINDS = len(_KINDS)
