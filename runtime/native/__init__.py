"""The native engine: a Transformer in PyTorch that can be read, one idea a file."""

from runtime.spinning import bound_spinning

bound_spinning()  # every file here that brings torch, and its threads, is imported after this one
