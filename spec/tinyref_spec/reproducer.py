"""Self-contained scripts that show one failure again: under 40 lines, inputs as literal bits."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from tinyref.dtype import from_numpy_dtype
from tinyref.uops.node import UOp
from tinyref.uops.optimise.opt import opts_text
from tinyref.uops.text import to_text
from tinyref_spec.bits import Array, to_bits
from tinyref_spec.device_under_test import Optimised, Runnable

MOST_LINES = 40
_LONGEST_TEXT = 14


def array_literal(values: Array) -> str:
    """A Python expression that gives the same bits again; needs np, base64 and zlib."""
    bits = to_bits(values).ravel()
    name = from_numpy_dtype(values.dtype).name
    if bits.size and (bits == bits[0]).all():
        inner = f"np.full({bits.size}, {int(bits[0]):#x}, np.{bits.dtype})"
    elif bits.size <= 16:
        inner = f"np.array([{', '.join(f'{int(item):#x}' for item in bits)}], np.{bits.dtype})"
    else:
        packed = base64.b85encode(zlib.compress(bits.tobytes(), 9)).decode()
        inner = f"np.frombuffer(zlib.decompress(base64.b85decode({packed!r})), np.{bits.dtype})"
    return f"{inner}.view(numpy_dtype(dtypes.{name}))"


def _kernel_lines(kernel: Runnable) -> list[str]:
    if isinstance(kernel, Optimised):
        return [
            *_kernel_lines(kernel.ast),
            "from tinyref.uops.optimise.opt import parse_opts",
            "from tinyref_spec.device_under_test import Optimised",
            f"kernel = Optimised(kernel, parse_opts({opts_text(kernel.opts)!r}))",
        ]
    if isinstance(kernel, UOp):
        text = to_text(kernel)
        if len(text.splitlines()) <= _LONGEST_TEXT and '"""' not in text:
            return ["from tinyref.uops.text import from_text", f'kernel = from_text("""{text}""")']
    from tinyref.uops.serialize import to_json

    saved = json.dumps(to_json(kernel), separators=(",", ":"))
    return [
        "from tinyref.uops.serialize import from_json",
        f"kernel = from_json(json.loads({saved!r}))",
    ]


def kernel_script(
    case_id: str,
    device: str,
    kernel: Runnable,
    inputs: Sequence[Array | None],
    bindings: Mapping[str, int],
    expected: Array,
    index: int,
) -> str:
    """A script that runs `kernel` on `device` and prints what it gave and what is right."""
    listed = [f"    {'None' if data is None else array_literal(data)}," for data in inputs]
    flat = expected.ravel()
    wanted = array_literal(flat[index : index + 1]) if 0 <= index < flat.size else "None"
    lines = [
        f"# Reproduces {case_id} on {device}.",
        "import base64, json, zlib",
        "import numpy as np",
        "from tinyref.dtype import dtypes, numpy_dtype",
        "from tinyref_spec.device_under_test import DeviceUnderTest",
        *_kernel_lines(kernel),
        "inputs = [",
        *listed,
        "]",
        f"device = DeviceUnderTest({device!r})",
        f"actual = device.run(kernel, inputs, {dict(bindings)!r})[0]",
        f"expected = {wanted}",
        f'print("element", {index}, "expected", expected, "actual", actual[{index}:{index} + 1])',
    ]
    return "\n".join(lines) + "\n"


def tensor_script(
    case_id: str, device: str, inputs: Mapping[str, Array], expression: str, expected: Array
) -> str:
    """A script that evaluates a Tensor expression of the named inputs and prints both sides."""
    flat = np.ascontiguousarray(expected).ravel()[:8]
    lines = [
        f"# Reproduces {case_id} on {device}.",
        "import base64, zlib",
        "import numpy as np",
        "from tinyref import Tensor, dtypes",
        "from tinyref.dtype import numpy_dtype",
    ]
    if "nn." in expression:
        lines += ["from tinyref import nn", "from tinyref_spec.model.given import *"]
    if "device" in expression:
        lines.append(f"device = {device!r}")
    for name, values in inputs.items():
        shaped = f"({array_literal(values)}).reshape({values.shape})"
        lines.append(f"{name} = Tensor({shaped}, device={device!r}, requires_grad=True)")
    lines += [
        f"actual = {expression}",
        f"print({expression!r})",
        'print("actual", actual.numpy().ravel()[:8])',
        f'print("expected", {array_literal(flat)})',
    ]
    return "\n".join(lines) + "\n"
