"""Arguments of captured functions, and what they return."""

import numpy as np


def floats(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def calls(function, arguments):
    """What a function returns for each of the arguments, as numpy arrays."""
    return [function(argument).numpy() for argument in arguments]
