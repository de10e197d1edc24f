"""A device of which no result is right."""

from __future__ import annotations

import numpy as np

from tinyref_spec.device_under_test import DeviceUnderTest


class Wrong(DeviceUnderTest):
    """A device on which the last bit of every result is another."""

    def run(self, *given, **named):
        results = [result.copy() for result in super().run(*given, **named)]
        for result in results:
            result.view(np.uint8)[-1:] ^= 1
        return results
