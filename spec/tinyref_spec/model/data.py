"""Training data of the level `model`.

The digits are the test set of "Optical Recognition of Handwritten Digits" (E. Alpaydin and
C. Kaynak, 1998, UCI Machine Learning Repository, CC BY 4.0), as scikit-learn ships it: 1,797 images
of 8 x 8 pixels from 0 to 16.
"""

from __future__ import annotations

import functools
import io
from importlib import resources

import numpy as np

from tinyref_spec.bits import Array

TRAINING_IMAGES = 1400


@functools.cache
def digits() -> tuple[Array, Array]:
    """Return images (1797, 8, 8) in float32 from 0 to 1 and labels (1797,) in int32, shuffled."""
    data = (resources.files("tinyref_spec.model") / "digits.npz").read_bytes()
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        images, labels = file["images"], file["labels"]
    order = np.random.default_rng(2024).permutation(len(labels))
    return (images[order] / 16).astype(np.float32), labels[order].astype(np.int32)


def sums(seed: int, count: int) -> Array:
    """Return `count` additions of two numbers below 100 as rows of 7 tokens: a a b b s s s.

    Digits are tokens 0 to 9, the lowest digit of each number first.
    """
    generator = np.random.default_rng(seed)
    first, second = generator.integers(0, 100, (2, count))
    total = first + second
    rows = (first % 10, first // 10, second % 10, second // 10)
    return np.stack([*rows, total % 10, total // 10 % 10, total // 100], axis=1).astype(np.int32)


def copies(seed: int, count: int) -> Array:
    """Return `count` rows of 5 random tokens below 10, written twice."""
    generator = np.random.default_rng(seed)
    words = generator.integers(0, 10, (count, 5))
    return np.concatenate([words, words], axis=1).astype(np.int32)
