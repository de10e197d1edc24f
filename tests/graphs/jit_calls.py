"""Arguments and results of captured functions."""

import numpy as np


def floats(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def calls(function, arguments):
    """Return the results of a function for each of the arguments, as numpy arrays."""
    return [function(argument).numpy() for argument in arguments]
