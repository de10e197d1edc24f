"""`tinyref bench --sweep`: random works on one thread of the device CPU, compared with torch.

A seed draws shapes that models have and shapes that no block divides. Nobody chose the works, so
their ratios say what a user's next program may expect.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tinyref import Tensor
from tinyref.cli.bench import BenchRow, Measured
from tinyref.cli.bench.speed import Variant, geometric_mean, measure_work, peer_of
from tinyref.cli.bench.works import (
    AnyModule,
    AnyTensor,
    Shape,
    Shapes,
    Work,
    clock_of,
    seconds_of_call,
)
from tinyref.errors import UserError

# Sizes that models have, and sizes that a block of lanes does not divide.
CHANNELS = (1, 3, 8, 16, 32, 64, 96, 128, 256, 512)
FEATURES = (64, 128, 256, 512, 768, 1024, 3072)
IMAGES = (7, 14, 28, 56, 112)
LENGTHS = (16, 64, 128, 197, 512, 1024)
ODD = (1, 2, 3, 5, 7, 10, 13, 17, 31, 33, 63, 65, 97, 127, 129, 255, 257, 331, 333, 511, 513, 1023)
ODD_SHARE = 0.4
# A work with more is drawn again: it would take longer than a second.
MOST_OPERATIONS, MOST_ELEMENTS = 6e8, 4e6
# Each third work is measured with its gradients.
BACKWARD_SHARE = 1 / 3
# A call of a captured function costs something that a call of torch does not.
CALL_MILLISECONDS = 0.015
WORST = 10
# The edge of the product and the elements of the copy that measure the peaks.
PEAK_SIZE, PEAK_ELEMENTS = 1024, 1 << 24
VARIANTS = (Variant("", threads=1), Variant(".contracted", strict=0, threads=1))


@dataclass(frozen=True)
class Drawn:
    """A work of the sweep.

    work: what is measured, with its shapes in `host`.
    operations: the number of additions, products and functions.
    traffic: the number of bytes of the inputs that are read.
    """

    work: Work
    operations: float
    traffic: float

    @property
    def is_small(self) -> bool:
        """Return whether it takes less than about a second."""
        elements = sum(map(math.prod, self.work.host or ()))
        return self.operations <= MOST_OPERATIONS and elements <= MOST_ELEMENTS


class Draw:
    """Draws of sizes from a seed."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)

    def size(self, usual: Sequence[int], most: int = 1 << 20) -> int:
        """Return a usual size, or an odd one in two cases of five; at most `most`."""
        sizes = ODD if self.random.random() < ODD_SHARE else usual
        return self.random.choice([size for size in sizes if size <= most] or [1])

    def one_of(self, *choices: Any) -> Any:
        """Return one of the choices."""
        return self.random.choice(choices)

    def shape(self, axes: int) -> Shape:
        """Return a shape of at most `MOST_ELEMENTS` elements."""
        while True:
            shape = tuple(self.size(FEATURES + IMAGES) for _ in range(axes))
            if math.prod(shape) <= MOST_ELEMENTS:
                return shape


def _drawn(
    name: str,
    shapes: Shapes,
    operations: float,
    ours: Callable[..., Tensor],
    torch: Callable[..., AnyTensor],
    has_indices: bool = False,
    span: tuple[float, float] = (-1.0, 1.0),
) -> Drawn:
    sizes = " ".join("x".join(map(str, shape)) for shape in shapes)
    work = Work(f"{name} {sizes}", ours, torch, shapes, shapes, None, has_indices, span=span)
    traffic = 4 * (operations if has_indices else sum(map(math.prod, shapes)))
    return Drawn(work, operations, traffic)


# --- families of works ----------------------------------------------------------------------------


def convolution(draw: Draw) -> Drawn:
    """Return a convolution of 1, 2 or 3 axes, with a stride, groups or a dilation."""
    axes = draw.one_of(1, 2, 2, 2, 2, 3)
    width = draw.one_of(1, 3, 3, 5, 7)
    stride, dilation = draw.one_of((1, 1), (1, 1), (1, 1), (2, 1), (1, 2))
    channels, outputs = draw.size(CHANNELS), draw.size(CHANNELS, 512)
    groups = draw.one_of(1, 1, 1, math.gcd(channels, outputs), channels)
    if groups == channels:
        outputs = channels * draw.one_of(1, 1, 2)
    batch, extent = draw.one_of(1, 1, 2, 8), draw.size(IMAGES, 130)
    padding = dilation * (width - 1) // 2
    image = (batch, channels, *(extent,) * axes)
    weight = (outputs, channels // groups, *(width,) * axes)
    kinds = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    function = f"conv{axes}d"
    positions = batch * (extent / stride) ** axes
    return _drawn(
        f"{function}.stride{stride}.dilation{dilation}.groups{groups}",
        (image, weight),
        2 * positions * math.prod(weight),
        lambda x, w: x.conv2d(w, **kinds),
        lambda torch, x, w: getattr(torch.nn.functional, function)(x, w, **kinds),
    )


def transposed_convolution(draw: Draw) -> Drawn:
    """Return a transposed convolution of two axes."""
    width, stride = draw.one_of((2, 2), (3, 1), (3, 2), (4, 2))
    channels, outputs = draw.size(CHANNELS, 256), draw.size(CHANNELS, 256)
    image = (draw.one_of(1, 2, 4), channels, *(draw.size(IMAGES, 60),) * 2)
    weight = (channels, outputs, width, width)
    return _drawn(
        f"conv_transpose2d.stride{stride}",
        (image, weight),
        2 * math.prod(image) * outputs * width**2,
        lambda x, w: x.conv_transpose2d(w, stride=stride),
        lambda torch, x, w: torch.nn.functional.conv_transpose2d(x, w, stride=stride),
    )


def product(draw: Draw) -> Drawn:
    """Return a product of matrices: batched, thin, with a vector, with a transposed operand."""
    usual = FEATURES + LENGTHS
    rows, inner, columns = draw.size(usual), draw.size(usual), draw.size(usual)
    kind = draw.one_of("plain", "plain", "batched", "thin", "vector", "transposed")
    batch: Shape = (draw.one_of(2, 8, 12),) if kind == "batched" else ()
    if kind == "thin":
        rows, columns = draw.size(ODD, 17), draw.size(usual, 513)
    if kind == "vector":
        rows = 1
    right = (columns, inner) if kind == "transposed" else (inner, columns)

    def multiply(x: AnyTensor, y: AnyTensor) -> AnyTensor:
        return x @ (y.transpose(0, 1) if kind == "transposed" else y)

    return _drawn(
        f"matmul.{kind}",
        ((*batch, rows, inner), (*batch, *right)),
        2 * math.prod(batch) * rows * inner * columns,
        multiply,
        lambda torch, x, y: multiply(x, y),
    )


def reduction(draw: Draw) -> Drawn:
    """Return a reduce along one axis or two."""
    shape = draw.shape(draw.one_of(2, 3, 3, 4))
    names = ("sum", "mean", "amax", "amin", "var", "std", "logsumexp", "argmax", "prod")
    name = draw.one_of(*names)
    count = 1 if name in ("argmax", "prod") else draw.one_of(1, 1, 2)
    axes = tuple(sorted(draw.random.sample(range(len(shape)), count)))
    # Torch gives NaN for the variance of one element.
    keywords = {"correction": 0} if name in ("var", "std") else {}
    own = {"amax": "max", "amin": "min"}.get(name, name)
    axis: Any = axes[0] if count == 1 else axes
    return _drawn(
        f"{name}.axes{''.join(map(str, axes))}",
        (shape,),
        math.prod(shape),
        lambda x: getattr(x, own)(axis, **keywords),
        lambda torch, x: getattr(x, name)(axis, **keywords),
    )


def scan(draw: Draw) -> Drawn:
    """Return a cumulative sum, product, maximum or a logarithm of sums."""
    shape = draw.shape(draw.one_of(1, 2, 2, 3))
    axis = draw.random.randrange(len(shape))
    name = draw.one_of("cumsum", "cumsum", "cumprod", "cummax", "logcumsumexp")
    is_pair = name == "cummax"
    return _drawn(
        f"{name}.axis{axis}",
        (shape,),
        math.prod(shape),
        lambda x: getattr(x, name)(axis),
        lambda torch, x: getattr(x, name)(axis)[0] if is_pair else getattr(x, name)(axis),
    )


def order(draw: Draw) -> Drawn:
    """Return a sort, or the largest elements, along one axis."""
    shape = draw.shape(2)
    axis = draw.one_of(0, 1, 1)
    count = draw.one_of(1, 5, 10, 50)
    steps = math.prod(shape) * max(1.0, math.log2(shape[axis]))
    if draw.one_of(True, False) or count > shape[axis]:
        return _drawn(
            f"sort.axis{axis}",
            (shape,),
            steps,
            lambda x: x.sort(axis)[0],
            lambda torch, x: x.sort(axis)[0],
        )
    return _drawn(
        f"topk{count}.axis{axis}",
        (shape,),
        math.prod(shape),
        lambda x: x.topk(count, axis)[0],
        lambda torch, x: x.topk(count, axis)[0],
    )


def embedding(draw: Draw) -> Drawn:
    """Return rows of a table that a tensor of indices names."""
    table = (draw.size((1000, 4096, 10_000)), draw.size(FEATURES))
    indices = (draw.one_of(1, 4, 32), draw.size(LENGTHS))
    return _drawn(
        "embedding",
        (table, indices),
        math.prod(indices) * table[1],
        lambda x, rows: x[rows],
        lambda torch, x, rows: torch.nn.functional.embedding(rows.long(), x),
        has_indices=True,
    )


def scattering(draw: Draw) -> Drawn:
    """Return a table to which rows are added, at positions that a tensor of indices names."""
    columns = draw.size(FEATURES)
    table, count = (draw.size((1000, 4096, 10_000)), columns), draw.size(LENGTHS)
    return _drawn(
        "scatter",
        (table, (count, columns), (count,)),
        math.prod(table) + count * columns,
        lambda x, added, rows: x.scatter_reduce(
            0, rows.unsqueeze(1).expand(added.shape), added, "sum"
        ),
        lambda torch, x, added, rows: x.index_add(0, rows.long(), added),
        has_indices=True,
    )


def pooling(draw: Draw) -> Drawn:
    """Return a maximum or mean over windows."""
    shape = _image(draw)
    width, stride = draw.one_of((2, 2), (3, 1), (3, 2))
    if shape[-1] < width:
        return pooling(draw)
    name = draw.one_of("max_pool2d", "avg_pool2d")
    return _drawn(
        f"{name}.width{width}.stride{stride}",
        (shape,),
        math.prod(shape) * width**2 / stride**2,
        lambda x: getattr(x, name)((width, width), stride),
        lambda torch, x: getattr(torch.nn.functional, name)(x, width, stride),
    )


def interpolation(draw: Draw) -> Drawn:
    """Return an image in another size."""
    shape = _image(draw)
    size = (max(1, int(shape[-1] * draw.one_of(0.5, 1.5, 2))),) * 2
    name, other = draw.one_of(("nearest", "nearest"), ("linear", "bilinear"))
    keywords = {} if name == "nearest" else {"align_corners": False}
    return _drawn(
        f"interpolate.{name}.to{size[0]}",
        (shape,),
        math.prod(shape[:2]) * size[0] ** 2 * 8,
        lambda x: x.interpolate(size, name),
        lambda torch, x: torch.nn.functional.interpolate(x, size, mode=other, **keywords),
    )


def chain(draw: Draw) -> Drawn:
    """Return two to five elementwise functions, one after the other."""
    shape = draw.shape(draw.one_of(1, 2, 3))
    names = ("tanh", "sigmoid", "exp", "sqrt", "log", "sin", "erf", "relu", "abs", "square")
    count = draw.one_of(1, 2, 3, 5)
    chosen = [draw.one_of(*names) for _ in range(count)]

    def apply(x: AnyTensor, y: AnyTensor) -> AnyTensor:
        for name in chosen:
            # The functions have their poles at 0, and exp its overflow far from it.
            x = getattr(x * 0.5 + y, name)() + 1.5
        return x

    return _drawn(
        f"elementwise.{'.'.join(chosen)}",
        (shape, shape),
        math.prod(shape) * count * 10,
        apply,
        lambda torch, x, y: apply(x, y),
        span=(0.5, 1.0),
    )


def normalisation(draw: Draw) -> Drawn:
    """Return a softmax or a normalisation of rows, or one of channels."""
    name = draw.one_of("softmax", "log_softmax", "layernorm", "channels")
    if name == "channels":
        shape = _image(draw)

        def normalise(x: AnyTensor) -> AnyTensor:
            mean = x.mean((0, 2, 3), keepdim=True)
            variance = ((x - mean) * (x - mean)).mean((0, 2, 3), keepdim=True)
            return (x - mean) * (variance + 1e-5).rsqrt()

        return _drawn(
            "batchnorm",
            (shape,),
            math.prod(shape) * 8,
            normalise,
            lambda torch, x: torch.nn.functional.batch_norm(x, None, None, training=True),
        )
    shape = draw.shape(draw.one_of(2, 3))
    call = {
        "softmax": lambda torch, x: x.softmax(-1),
        "log_softmax": lambda torch, x: x.log_softmax(-1),
        "layernorm": lambda torch, x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
    }[name]
    operations = math.prod(shape) * 10
    return _drawn(name, (shape,), operations, lambda x: getattr(x, name)(), call)


def attention(draw: Draw) -> Drawn:
    """Return an attention of several heads."""
    heads = (draw.one_of(1, 2, 8), draw.one_of(1, 4, 12))
    width = draw.one_of(16, 32, 64)
    queries, keys = draw.size(LENGTHS, 513), draw.size(LENGTHS, 513)
    return _drawn(
        "attention",
        ((*heads, queries, width), (*heads, keys, width), (*heads, keys, width)),
        4 * math.prod(heads) * queries * keys * width,
        lambda q, k, v: q.scaled_dot_product_attention(k, v),
        lambda torch, q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v),
    )


def _image(draw: Draw) -> Shape:
    extent = draw.size(IMAGES, 130)
    return (draw.one_of(1, 2, 8), draw.size(CHANNELS, 256), extent, extent)


# Each family as often as it stands here. The first four are what most of the time goes into.
FAMILIES: Sequence[Callable[[Draw], Drawn]] = (
    convolution,
    convolution,
    convolution,
    product,
    product,
    product,
    reduction,
    reduction,
    chain,
    chain,
    normalisation,
    transposed_convolution,
    scan,
    order,
    embedding,
    scattering,
    pooling,
    interpolation,
    attention,
)


def draw_works(seed: int, count: int) -> list[Drawn]:
    """Return `count` works of a seed; a longer list begins with a shorter one of the same seed."""
    return [_draw_work(Draw(f"{seed} {number}")) for number in range(count)]


def _draw_work(draw: Draw) -> Drawn:
    while True:
        family: Callable[[Draw], Drawn] = draw.one_of(*FAMILIES)
        drawn = family(draw)
        if not drawn.is_small:
            continue
        return with_gradients(drawn) if draw.random.random() < BACKWARD_SHARE else drawn


def with_gradients(drawn: Drawn) -> Drawn:
    """Return the work that computes the gradients of its inputs, except indices.

    The gradient of the result is half the result: a constant one would be folded.
    """
    work = drawn.work
    if work.name.startswith("argmax"):
        return drawn

    def ours(*inputs: Tensor) -> list[Tensor]:
        result = work.ours(*inputs)
        assert isinstance(result, Tensor), "a drawn work has one result"
        floats = [data for data in inputs if data.dtype.is_float]
        return result.gradient(*floats, gradient=result.detach() * 0.5)

    def torch(module: AnyModule, *inputs: AnyTensor) -> Sequence[AnyTensor]:
        with module.enable_grad():
            leaves = [data.detach().requires_grad_(data.is_floating_point()) for data in inputs]
            result = work.torch(module, *leaves)
            floats = [data for data in leaves if data.requires_grad]
            gradients: Sequence[AnyTensor] = module.autograd.grad(
                result, floats, result.detach() * 0.5
            )
        return gradients

    twin = replace(work, name=f"{work.name} backward", ours=ours, torch=torch)
    # Each gradient costs about as much as the result, and reads its operands again.
    return Drawn(twin, 3 * drawn.operations, 3 * drawn.traffic)


# --- measurements ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Peak:
    """The rates of torch on this host, one thread: a product and a copy, both large.

    operations_per_ns: additions and products of float32, a nanosecond.
    bytes_per_ns: bytes read and written, a nanosecond.
    """

    operations_per_ns: float
    bytes_per_ns: float


def measure_peak(repeats: int) -> Peak:
    """Measure both rates, each the best of `repeats`. Raise `UserError` without torch."""
    peer = peer_of("CPU")
    if peer.module is None:
        raise UserError(
            "bench: --sweep compares with torch, which is not installed: pip install torch"
        )
    peer.use_threads(1)
    square = peer.module.ones(PEAK_SIZE, PEAK_SIZE)
    data, target = peer.module.ones(PEAK_ELEMENTS), peer.module.ones(PEAK_ELEMENTS)

    def best(call: Callable[[], object]) -> float:
        return min(seconds_of_call(call, clock_of(1)) for _ in range(repeats)) * 1e9

    return Peak(
        2 * PEAK_SIZE**3 / best(lambda: square @ square),
        8 * PEAK_ELEMENTS / best(lambda: target.copy_(data)),
    )


def sweep_rows(works: Sequence[Drawn], variant: Variant, peak: Peak) -> list[BenchRow]:
    """Return a row for each work in a variant."""
    return [
        BenchRow(
            drawn.work.name + variant.suffix, functools.partial(_measure, drawn, variant, peak)
        )
        for drawn in works
    ]


def _measure(drawn: Drawn, variant: Variant, peak: Peak, repeats: int) -> Iterator[Measured]:
    """Yield the milliseconds of a work and of torch, with its rate in the note."""
    measured = measure_work(drawn.work, drawn.work.host or (), variant, "CPU", repeats)
    if not measured.missing:
        measured.peer_values = [value + CALL_MILLISECONDS for value in measured.peer_values]
        measured.note = rate_text(drawn, measured.median * 1e6, peak)
    yield measured


def rate_text(drawn: Drawn, nanoseconds: float, peak: Peak) -> str:
    """Return the rate that is nearer to its peak: of operations or of bytes."""
    operations, traffic = drawn.operations / nanoseconds, drawn.traffic / nanoseconds
    of_operations, of_bytes = operations / peak.operations_per_ns, traffic / peak.bytes_per_ns
    if of_operations >= of_bytes:
        return f"{operations:.2g} GFLOP/s, {of_operations:.0%} of the peak"
    return f"{traffic:.2g} GB/s, {of_bytes:.0%} of the peak"


def head_text(variant: Variant) -> str:
    """Return the variant that the next works are measured in."""
    return f"{_floats(variant)}:"


def row_text(variant: Variant, line: Measured) -> str:
    """Return the line of a work."""
    del variant
    if line.missing:
        return f"{line.name}: {line.missing}"
    return (
        f"{line.ratio:7.2f}  {line.median:9.3f} ms, torch {line.peer_median:9.3f} ms  "
        f"{line.name}: {line.note}"
    )


def end_text(variant: Variant, lines: Sequence[Measured]) -> str:
    """Return the geometric mean, two percentiles and the worst works of a variant."""
    by_ratio = sorted((line for line in lines if not line.missing), key=lambda line: line.ratio)
    if not by_ratio:
        return f"{_floats(variant)}: no work was measured"
    ratios = [line.ratio for line in by_ratio]
    head = (
        f"{_floats(variant)}, {len(ratios)} works: geometric mean {geometric_mean(ratios):.2f}, "
        f"90 % below {percentile(ratios, 90):.2f}, 95 % below {percentile(ratios, 95):.2f}, "
        f"worst {ratios[-1]:.2f}"
    )
    worst = by_ratio[: -WORST - 1 : -1]
    missing = [line for line in lines if line.missing]
    return "\n".join([head, *(row_text(variant, line) for line in (*worst, *missing))])


def _floats(variant: Variant) -> str:
    return "strict floats" if variant.strict else "contracted floats"


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the least of the sorted values that is not below this percentage of them."""
    return values[max(0, math.ceil(len(values) * percent / 100) - 1)]
