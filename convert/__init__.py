"""Checkpoints in, GGUF out. Knows nothing about windows."""
