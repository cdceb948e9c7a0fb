"""The native engine: a Transformer in PyTorch that can be read, one idea a file."""
