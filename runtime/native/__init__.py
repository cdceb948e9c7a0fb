"""The native engine: a Transformer in PyTorch that can be read, one idea a file."""

from runtime.spinning import BETWEEN_PRODUCTS, bound_spinning

# A thread that sleeps between two products is woken some hundred times a token: on two cores a quarter of the speed.
# Every file here that brings torch, and its threads, is imported after this one.
bound_spinning(iterations=BETWEEN_PRODUCTS)
