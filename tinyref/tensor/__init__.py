"""Tensor: what users write; autograd, indexing and the functions of neural networks."""
