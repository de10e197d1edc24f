"""Rows of the level `tensor`: reading and writing at an index, gather, scatter."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyref.dtype import dtypes
from tinyref_spec.bits import Array
from tinyref_spec.tensor.forms import (
    ANYTHING,
    Form,
    Function,
    Input,
    Shape,
    by_numpy,
    movement_form,
)
from tinyref_spec.tensor.places import (
    NEGATIVE,
    READS_ZERO,
    c_of,
    choice_form,
    i_of,
    meets,
    select,
    setitem_form,
    v_of,
    x_of,
)

BACKWARD_STEPS = "torch takes no negative steps"
MANY_VALUES = "torch does not specify which of several values is written"


def _read(key: str, *shape: int, no_torch: str = "") -> Form:
    """Return x[key] for a key of numbers alone, which numpy reads as torch does."""
    move = by_numpy(f"x[{key}]", (x_of(*shape),))
    return movement_form(f"x[{key}]", shape, move, no_torch=no_torch)


def _choose(expression: str, *inputs: Input) -> Form:
    """Return the form of x[key] for a key of tensors: numpy reads it in the same way."""
    return choice_form(expression, inputs, by_numpy(expression, inputs))


def _write(key: str, *inputs: Input, no_torch: str = "") -> Form:
    """Return the form of x[key] = v for a key that numpy takes."""
    index = by_numpy(key, inputs)

    def put(x: Array, v: Array, *rest: Array) -> Array:
        return _put(x, index(x, v, *rest), v)

    return setitem_form(key, inputs, put, no_torch)


def _draw_shape(generator: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(size) for size in generator.integers(1, 6, generator.integers(1, 5)))


def _draw_key(generator: np.random.Generator, shape: Shape, is_unique: bool) -> str:
    """Return slices, new axes, and lists of indices that match; no index twice if unique."""
    count = int(generator.integers(1, 1 + (min(shape) if is_unique else 3)))
    items: list[str] = []
    for size in shape[: generator.integers(1, len(shape) + 1)]:
        match int(generator.integers(0, 4)):
            case 0:
                begin = int(generator.integers(0, size))
                end = int(generator.integers(begin + 1, size + 3))
                items.append(f"{begin - size}:{end}:{generator.integers(1, 4)}")
            case 1:
                items.append(":")
            case 2:
                items += ["None", ":"]
            case _ if is_unique:
                signs = size * generator.integers(0, 2, count)
                items.append(str((generator.permutation(size)[:count] - signs).tolist()))
            case _:
                items.append(str(generator.integers(-size, size, count).tolist()))
    if generator.integers(0, 3) == 0:
        items.append("...")
    return ", ".join(items)


def _draw_read(generator: np.random.Generator) -> Form:
    shape = _draw_shape(generator)
    return _read(_draw_key(generator, shape, False), *shape)


def _draw_write(generator: np.random.Generator) -> Form:
    """Return x[key] = v with a value that broadcasts; a single list is no tuple to torch."""
    shape = _draw_shape(generator)
    key = f"np.s_[{_draw_key(generator, shape, True)}, ...]".replace("..., ...", "...")
    index = eval(key, {"np": np})
    taken = np.zeros(shape)[index].shape
    sizes = [size if generator.integers(0, 3) else 1 for size in taken]
    sizes = sizes[generator.integers(0, len(sizes) + 1) :]
    return _write(key, x_of(*shape), v_of(*sizes))


READ = Function(
    "getitem",
    "Integers, slices of any step, None and Ellipsis view; tensors, lists, ranges and arrays of "
    "integers or bools choose: next to each other their axes stay in place, else they go in front. "
    "An index out of range reads 0 if it is in a tensor, and is refused if it is known.",
    (
        _read("None"),
        _read("1", 3, 4),
        _read("-1, 2", 3, 4),
        _read("..., 1:", 3, 2, 4),
        _read("::2, None, 1:-1", 5, 4),
        _read("::-1, 3:0:-2", 5, 4, no_torch=BACKWARD_STEPS),
        _read("[2, 0, 0, -1]", 3, 4),
        _read("np.array([[0, 1], [2, 2]])", 3, 4),
        _read("[0, 2], :, [1, 3]", 3, 2, 4),
        _read("[True, False, True], 1:", 3, 4),
        _read("True, 1:", 3, 4),
        _read("1:, False", 3, 4),
        _read("range(2), [[1], [0]]", 3, 4, no_torch="torch takes no ranges"),
        _read("np.array([1, 3]), ::2", 4, 5),
        _choose("x[i % 4]", x_of(4, 3), i_of(2, 5)),
        _choose("x[i % 4 - 4]", x_of(4, 3), i_of(7)),
        _choose("x[:, i % 3]", x_of(4, 3, 2), i_of(2, 2)),
        _choose("x[i % 4, 1:, i % 3]", x_of(4, 3, 3), i_of(6)),
        choice_form("x[1, :, i % 3]", (x_of(4, 2, 3), i_of(6)), lambda x, i: x[1][:, i % 3]),
        _choose("x[:, i % 3, j % 2, None]", x_of(2, 3, 2), i_of(4, 1), i_of(5, name="j")),
        _choose("x[c]", x_of(4, 3), c_of(4, 3)),
        _choose("x[:, c]", x_of(4, 7), c_of(7)),
        _choose("x[c, i[0] % 2]", x_of(4, 2), c_of(4), i_of(1)),
        choice_form(
            "x[i]",
            (x_of(4, 3), i_of(9)),
            lambda x, i: select((i < 4)[:, None], x[i % 4], 0),
            no_torch=READS_ZERO,
        ),
    ),
    ANYTHING,
    generate=_draw_read,
    covers=("__getitem__",),
)


def _put(x: Array, key: Any, v: Array) -> Array:
    result = x.copy()
    result[key] = v
    return result


WRITTEN = Function(
    "setitem",
    "The elements that an index takes are replaced by a value, which broadcasts to them; of "
    "several values for one element the last one is written.",
    (
        _write("1", x_of(3, 4), v_of(4)),
        _write("(slice(1, None), slice(None, None, 2))", x_of(3, 4), v_of(2, 1)),
        _write("(slice(None, None, -1), 0)", x_of(3, 4), v_of(3), no_torch=BACKWARD_STEPS),
        _write("[2, 0]", x_of(3, 4), v_of(2, 4)),
        _write("([0, 2], slice(None), [1, 3])", x_of(3, 2, 4), v_of(2, 1)),
        _write("(slice(1, None), [[0], [2]])", x_of(3, 4), v_of(2, 1)),
        _write("c", x_of(4, 3), v_of(), c_of(4, 3)),
        _write("c", x_of(4, 3), v_of(3), c_of(4)),
        _write("i % 4", x_of(4, 3), v_of(9, 3), i_of(9), no_torch=MANY_VALUES),
        setitem_form(
            "i",
            (x_of(4), v_of(), i_of(9)),
            lambda x, v, i: _put(x, i[i < 4], v),
            no_torch=READS_ZERO,
        ),
    ),
    ANYTHING,
    generate=_draw_write,
    covers=("__setitem__",),
)

LONG = "(i % 4).long()"


def _draw_gather(generator: np.random.Generator) -> Form:
    shape = tuple(int(size) for size in generator.integers(2, 6, generator.integers(1, 4)))
    axis = int(generator.integers(-len(shape), len(shape)))
    index = [int(generator.integers(1, size + 1)) for size in shape]
    index[axis] = int(generator.integers(1, 8))
    size = shape[axis]

    def choose(x: Array, i: Array) -> Array:
        cut = tuple(
            slice(None) if number == axis % len(shape) else slice(0, index[number])
            for number in range(len(shape))
        )
        return np.take_along_axis(x[cut], i % size, axis)

    return choice_form(
        f"x.gather({axis}, i % {size})",
        (x_of(*shape), i_of(*index)),
        choose,
        f"x.gather({axis}, (i % {size}).long())",
    )


GATHER = Function(
    "gather",
    "Along one axis the element that the index names, in the shape of the index; a place outside "
    "gives 0.",
    (
        choice_form(
            "x.gather(0, i % 4)",
            (x_of(4, 3), i_of(6, 3)),
            lambda x, i: np.take_along_axis(x, i % 4, 0),
            f"x.gather(0, {LONG})",
        ),
        choice_form(
            "x.gather(-1, i % 4)",
            (x_of(3, 2, 4), i_of(2, 2, 5)),
            lambda x, i: np.take_along_axis(x[:2], i % 4, 2),
            f"x.gather(-1, {LONG})",
        ),
        choice_form(
            "x.gather(1, i - 4)",
            (x_of(3, 8), i_of(3, 4)),
            lambda x, i: np.take_along_axis(x, (i - 4) % 8, 1),
            no_torch=NEGATIVE,
        ),
        choice_form(
            "x.gather(1, i)",
            (x_of(3, 4), i_of(3, 6)),
            lambda x, i: select(i < 4, np.take_along_axis(x, i % 4, 1), 0),
            no_torch=READS_ZERO,
        ),
    ),
    ANYTHING,
    generate=_draw_gather,
)
UNIQUE = "Tensor([[2, 0, 1], [0, 3, 2]], device=device)"
TORCH_UNIQUE = "torch.tensor([[2, 0, 1], [0, 3, 2]])"


def _scatter(x: Array, v: Array) -> Array:
    result = x.copy()
    np.put_along_axis(result[:, :3], np.array([[2, 0, 1], [0, 3, 2]]), v[:2, :3], 0)
    return result


def _last_wins(x: Array, v: Array, i: Array) -> Array:
    result = x.copy()
    for position in np.ndindex(*i.shape):
        if i[position] < x.shape[1]:
            result[position[0], i[position]] = v[position]
    return result


SCATTER = Function(
    "scatter",
    "The elements that the index names along one axis are replaced by, added to or multiplied by "
    "those of the source; the last of several is written, and an index out of range is ignored.",
    (
        choice_form(
            f"x.scatter(0, {UNIQUE}, v)",
            (x_of(4, 5), v_of(3, 4)),
            _scatter,
            no_torch="the source has more elements than the index: torch has no gradient then",
        ),
        choice_form(
            f"x.scatter(0, {UNIQUE}, v)",
            (x_of(4, 5), v_of(2, 3)),
            _scatter,
            f"x.scatter(0, {TORCH_UNIQUE}, v)",
        ),
        choice_form(
            "x.scatter(1, i, v)",
            (x_of(3, 4), v_of(3, 9), i_of(3, 9)),
            _last_wins,
            no_torch=MANY_VALUES,
        ),
    ),
    ANYTHING,
)
_SOURCES = (x_of(4, 5), i_of(6, 3), v_of(6, 3))
_TIES = (x_of(4, 5, kind="small"), i_of(6, 3), v_of(6, 3, kind="small"))
MEETING = Function(
    "scatter_into",
    "scatter with reduce adds to, or multiplies, what is there.",
    (
        meets("x.scatter(0, i % 4, v, 'add')", _SOURCES, 0, "sum", f"x.scatter_add(0, {LONG}, v)"),
        meets(
            "x.scatter(0, i % 4, v, reduce='multiply')",
            _SOURCES,
            0,
            "prod",
            f"x.scatter_reduce(0, {LONG}, v, 'prod')",
        ),
    ),
    (*dtypes.floats, dtypes.int32, dtypes.int64),
    covers=("scatter",),
)


def _reducing(reduce: str, include_self: bool) -> Form:
    # Torch shares the gradient with a tied element that is not included, so there are no ties.
    sources = _TIES if include_self or reduce not in ("amax", "amin") else _SOURCES
    arguments = f"v, {reduce!r}, include_self={include_self}"
    return meets(
        f"x.scatter_reduce(0, i % 4, {arguments})",
        sources,
        0,
        reduce,
        f"x.scatter_reduce(0, {LONG}, {arguments})",
        include_self,
    )


def _draw_reducing(generator: np.random.Generator) -> Form:
    """Return any axis, an index that is smaller on other axes, and a source of its shape."""
    shape = tuple(int(size) for size in generator.integers(1, 6, generator.integers(1, 4)))
    axis = int(generator.integers(-len(shape), len(shape)))
    index = [int(generator.integers(1, size + 1)) for size in shape]
    index[axis] = int(generator.integers(1, 8))
    reduce = REDUCES[int(generator.integers(0, len(REDUCES)))]
    include_self = bool(generator.integers(0, 2))
    arguments = f"v, {reduce!r}, include_self={include_self}"
    return meets(
        f"x.scatter_reduce({axis}, i % {shape[axis]}, {arguments})",
        (x_of(*shape), i_of(*index), v_of(*index)),
        axis % len(shape),
        reduce,
        f"x.scatter_reduce({axis}, (i % {shape[axis]}).long(), {arguments})",
        include_self,
    )


REDUCES = ("sum", "prod", "mean", "amax", "amin")
SCATTER_REDUCE = Function(
    "scatter_reduce",
    "Each element and those of the source that name it, as a sum, product, mean, largest or "
    "smallest; equal extremes share the gradient.",
    tuple(_reducing(reduce, include_self) for reduce in REDUCES for include_self in (True, False)),
    generate=_draw_reducing,
)

FUNCTIONS = (READ, WRITTEN, GATHER, SCATTER, MEETING, SCATTER_REDUCE)
