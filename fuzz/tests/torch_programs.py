"""What torch makes of a program: its autograd beside the gradients of the eager evaluator.

Views are copies here, so programs that write are not for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from tinyref_fuzz.programs.steps import Program, Step, Value

# All floats as float64: what is exact in float32 is so there.
DTYPES = {
    **{"float16": torch.float64, "float32": torch.float64, "bool": torch.bool},
    **{name: getattr(torch, name) for name in ("int8", "uint8", "int16", "int32", "int64")},
}


class UnsupportedError(Exception):
    """A step that torch has no counterpart of."""


def _axes(x: torch.Tensor, key: Sequence[Value]) -> torch.Tensor:
    """A key of numbers and slices of either sign, axis by axis."""
    axis = 0
    for item in key:
        if isinstance(item, tuple):
            chosen = range(*slice(*item).indices(x.shape[axis]))
            x = x.index_select(axis, torch.tensor(list(chosen), dtype=torch.int64))
            axis += 1
        else:
            x = x.select(axis, item)
    return x


def _pads(pairs: Sequence[tuple[int, int]]) -> list[int]:
    return [amount for pair in reversed(pairs) for amount in pair]


def _cast(x: torch.Tensor, name: str) -> torch.Tensor:
    found = x.to(DTYPES[name])
    return found * 1 if found is x else found


def _wide(x: torch.Tensor) -> dict[str, torch.dtype]:
    """The type of a sum, which torch would take in int64."""
    if x.dtype == torch.uint8:
        raise UnsupportedError("sums in uint32")
    is_narrow = x.dtype in (torch.bool, torch.int8, torch.int16)
    return {"dtype": torch.int32 if is_narrow else x.dtype}


def _product(v: Sequence[Value], x: torch.Tensor) -> torch.Tensor:
    wide = _wide(x)
    for axis in v[0]:
        x = x.prod(axis, keepdim=True, **wide)
    return x if v[1] else x.squeeze(v[0])


CALLS: dict[str, Callable[..., torch.Tensor]] = {
    "reshape": lambda v, x: x.reshape(v[0]),
    "permute": lambda v, x: x.permute(v[0]),
    "expand": lambda v, x: x.expand(v[0]),
    "shrink": lambda v, x: x[tuple(slice(*pair) for pair in v[0])],
    "flip": lambda v, x: x.flip(v[0]),
    "index": lambda v, x: _axes(x, v[0]),
    "detach": lambda v, x: x.detach(),
    "neg": lambda v, x: -x,
    "relu": lambda v, x: torch.relu(x),
    "square": lambda v, x: x * x,
    "not": lambda v, x: ~x,
    "cast": lambda v, x: _cast(x, v[0]),
    "add_number": lambda v, x: x + v[0],
    "mul_number": lambda v, x: x * v[0],
    "max_number": lambda v, x: torch.maximum(x, torch.tensor(v[0], dtype=x.dtype)),
    "lt_number": lambda v, x: x < v[0],
    "add": lambda v, x, y: x + y,
    "sub": lambda v, x, y: x - y,
    "mul": lambda v, x, y: x * y,
    "maximum": lambda v, x, y: torch.maximum(x, y),
    "minimum": lambda v, x, y: torch.minimum(x, y),
    "lt": lambda v, x, y: x < y,
    "ne": lambda v, x, y: x != y,
    "and": lambda v, x, y: x & y,
    "xor": lambda v, x, y: x ^ y,
    "where": lambda v, c, x, y: torch.where(c, x, y),
    "sum": lambda v, x: x.sum(v[0], keepdim=v[1], **_wide(x)),
    "max": lambda v, x: x.amax(v[0], keepdim=v[1]),
    "prod": _product,
    "cumsum": lambda v, x: x.cumsum(v[0], **_wide(x)),
    "matmul": lambda v, x, y: x @ y,
    "cat": lambda v, x, y: torch.cat((x, y), v[0]),
    "stack": lambda v, x, y: torch.stack((x, y), v[0]),
    "pad": lambda v, x: torch.nn.functional.pad(x, _pads(v[0])),
    "take": lambda v, x, places: x[places.to(torch.int64)],
    "contiguous": lambda v, x: x.clone(),
    "clone": lambda v, x: x.clone(),
    "to": lambda v, x: x.clone(),
    "full": lambda v: torch.full(v[1], v[2], dtype=DTYPES[v[0]]),
    "arange": lambda v: torch.arange(v[0], v[0] + v[1], dtype=torch.int32),
    "grad": lambda v, x: x.grad.clone(),
}


class _Environment:
    def __init__(self) -> None:
        self.tensors: dict[int, torch.Tensor] = {}
        self.reads: list[np.ndarray[Any, Any]] = []

    def run(self, step: Step) -> None:
        if step.body:
            raise UnsupportedError(step.op)
        args = [self.tensors[number] for number in step.args]
        match step.op:
            case "data":
                dtype, shape, elements, _, requires_grad = step.values
                if dtype not in DTYPES:
                    raise UnsupportedError(dtype)
                array = np.array(elements, dtype).reshape(shape)
                found = torch.from_numpy(array).to(DTYPES[dtype]).requires_grad_(requires_grad)
                self.tensors[step.target] = found
            case "read":
                self.reads.append(args[0].detach().numpy().copy())
            case "drop" | "realize":
                pass
            case "zero_grad":
                args[0].grad = None
            case "backward":
                # torch adds to the weights themselves, where the gradient is a view of them.
                weights = [each.detach().to(args[0].dtype).clone() for each in args[1:]]
                args[0].backward(*weights, retain_graph=True)
            case "gradient" | "gradient_weighted":
                self._gradients(step, args)
            case name if name in CALLS and self._is_known(step):
                self.tensors[step.target] = CALLS[name](step.values, *args)
            case _:
                raise UnsupportedError(step.op)

    def _gradients(self, step: Step, args: Sequence[torch.Tensor]) -> None:
        loss, *rest = args
        weights = None
        if step.op == "gradient_weighted":
            weights, *rest = rest
            weights = weights.to(loss.dtype)
        found = torch.autograd.grad(loss, rest, weights, retain_graph=True)
        self.tensors.update(zip(step.targets, found, strict=True))

    @staticmethod
    def _is_known(step: Step) -> bool:
        return step.op not in ("cast", "full") or step.values[0] in DTYPES


def read_by_torch(program: Program) -> list[np.ndarray[Any, Any]]:
    """What the reads of a program give. Raises `UnsupportedError` for what is not for it."""
    environment = _Environment()
    for step in program.steps:
        environment.run(step)
    return environment.reads
