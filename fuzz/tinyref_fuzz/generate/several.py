"""Kernels of many small outputs: one operation or one planted expression each, over shared inputs.

What stands alone is not diluted: nothing after it takes its bits away, and one kernel tries as many
as it has outputs. The types of loads meet in casts, and the data are of the whole range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyref.dtype import DType
from tinyref_fuzz.generate.arithmetic import converted
from tinyref_fuzz.generate.plants import plant_of
from tinyref_fuzz.generate.values import Shape, Value

if TYPE_CHECKING:
    from tinyref_fuzz.generate.expressions import Expressions

# Elements of each output, enough for some to be an extreme of their type.
LENGTHS = (48, 64, 30, 17)
LEAST, MOST = 8, 14
# Of the outputs this many in 100 are instances of rules, the others are operations.
PLANTS = 60


def several(draw: Expressions) -> list[Value]:
    """The values of the outputs, each over the one axis of the kernel."""
    kernel = draw.kernel
    axes = kernel.add_axes([draw.tape.pick(LENGTHS)], outer=True)
    kernel.make_symbolic()
    shape = kernel.shape(axes)
    values = []
    for _ in range(draw.tape.between(LEAST, MOST)):
        is_planted = draw.tape.chance(PLANTS)
        found = plant_of(draw, lambda dtype: _leaf(draw, shape, dtype)) if is_planted else None
        values.append(found or _operation(draw, shape))
    return values


def _leaf(draw: Expressions, shape: Shape, dtype: DType) -> Value:
    """A load, mostly of a buffer that is loaded already."""
    found = draw.kernel.again(shape, dtype) if draw.tape.chance(70) else None
    return found or draw.kernel.load(shape, dtype, 0)


def _operation(draw: Expressions, shape: Shape) -> Value:
    """An operation on a load, or a load as another type."""
    kernel = draw.kernel
    weights = [draw.policy.dtypes.get(dtype, 1) for dtype in kernel.dtypes]
    x = _leaf(draw, shape, draw.tape.pick(kernel.dtypes, weights))
    if draw.tape.chance(30):
        found = converted(draw, x, draw.tape.pick(kernel.dtypes))
        if found is not None:
            return found
    return draw.grown(x)
