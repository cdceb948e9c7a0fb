"""The llama.cpp engine: GGUF models through llama.cpp's own C functions."""
