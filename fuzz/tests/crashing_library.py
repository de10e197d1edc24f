"""numpy as a library of the array API, whose `sum` and `cosh` end the process."""

import os
import time

import numpy
from numpy import *  # noqa: F403

__version__ = numpy.__version__
__array_namespace_info__ = numpy.__array_namespace_info__


def sum(x: numpy.ndarray, **settings: object) -> numpy.ndarray:
    """End the process as a crash does."""
    os.abort()


def cosh(x: numpy.ndarray) -> numpy.ndarray:
    """End the process as a crash does."""
    os.abort()


def sinh(x: numpy.ndarray) -> numpy.ndarray:
    """Return too late."""
    time.sleep(600)
    return x
