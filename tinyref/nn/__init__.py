"""Layers, optimisers and state: empty until their issue is built."""
