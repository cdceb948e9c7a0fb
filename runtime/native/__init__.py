"""The native engine: a Transformer in PyTorch that can be read, one idea a file.

Where the parts of “Attention Is All You Need” (arXiv 1706.03762) are, by its sections:

    3.1    stacks of layers, norms and sums around each part      transformer, block, norm
    3.2.1  scaled dot-product attention                           attention (`attend`)
    3.2.2  multi-head attention                                   attention (`Attention`), linear
    3.2.3  self-, encoder and cross-attention; who sees whom      attention, masks
    3.3    position-wise feed-forward networks                    feed_forward
    3.4    embeddings, and the softmax over the vocabulary        transformer, linear, candidates
    3.5    positional encoding                                    positions
    6.1    beam search                                            beam_search

What came later: remembering keys and values (kv_cache, cache_storage), drawing by chance (sampling, samplers,
penalties, dry, last_draw), guessing ahead (speculative), few bits (quantized), adapters (lora), looking inside
(inspection). `load` fills a model from files, `decode` reads tokens with it, `engine` answers with it.
"""

from runtime.spinning import BETWEEN_PRODUCTS, bound_spinning

# A thread that sleeps between two products is woken some hundred times a token: on two cores a quarter of the speed.
# Every file here that brings torch, and its threads, is imported after this one.
bound_spinning(iterations=BETWEEN_PRODUCTS)
