"""What a device does not declare is refused by the compiler: its renderer is never asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tinyref.capabilities import CORE_DTYPES, CORE_OPS, Capabilities
from tinyref.device import Device
from tinyref.dtype import DType, dtypes, image
from tinyref.errors import UserError
from tinyref.runtimes.kernel import compile_ahead, compile_ast, compile_program
from tinyref.runtimes.python import TextBackend, TextRenderer
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SlotArg, TileArg
from tinyref.uops.program import Program
from tinyref.uops.tiles import TILES
from tinyref_spec.kernel import programs
from tinyref_spec.kernel.programs import at
from tinyref_spec.kernels.named import elementwise

INT, FLOAT = dtypes.int32, dtypes.float32
LITTLE = Capabilities(CORE_DTYPES, CORE_OPS, buffer_limit=2)
GROUPS = dataclasses.replace(
    LITTLE,
    has_grid=True,
    has_groups=True,
    shared_bytes=64,
    group_size_limit=8,
    group_limit=(8, 4, 1),
    grid_limit=(100, 10, 1),
)
TILE = TILES["apple_m8n8k8_float32_float32"]


class EagerRenderer(TextRenderer):
    """Would print everything, and counts how often it is asked."""

    asked = 0

    def render(self, program: Program) -> str:
        type(self).asked += 1
        return super().render(program)


class LittleDevice(TextBackend):
    """Declares little; its interpreter would run everything."""

    declared = LITTLE

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        return self.declared

    @property
    def renderer(self) -> TextRenderer:  # type: ignore[override]
        return EagerRenderer()


class GroupDevice(LittleDevice):
    """Has small groups."""

    declared = GROUPS


def squared(dtype: DType) -> UOp:
    def value(x: UOp) -> UOp:
        wide = build.cast(x, dtype)
        return build.cast(build.mul(wide, wide), FLOAT)

    return elementwise(value, (FLOAT,), 4)


def stored(value: UOp, **launch: Any) -> Program:
    out = build.define_global(0, value.dtype.scalar, 64)
    return programs.program("sample", build.store(at(out, 0), value), **launch)


def vector() -> Program:
    return stored(build.load(at(build.define_global(1, FLOAT, 64), 0), lanes=4))


def buffers() -> Program:
    first, second = (build.load(at(build.define_global(slot, INT, 4), 0)) for slot in (1, 2))
    return stored(build.add(first, second))


def local(size: int) -> Program:
    shared = build.define_local("shared", INT, size)
    put = build.store(at(shared, 0), build.const(INT, 1))
    out = build.store(at(build.define_global(0, INT, 4), 0), build.load(at(shared, 0)))
    return programs.program("local", put, out)


def textured() -> Program:
    return programs.program("image", UOp(Ops.DEFINE_GLOBAL, image(FLOAT, 4, 4), (), SlotArg(1)))


def tile() -> Program:
    parts = [build.load(at(build.define_global(1, FLOAT, 64), 0), lanes=2) for _ in range(3)]
    return stored(build.gep(UOp(Ops.WMMA, FLOAT.vec(2), tuple(parts), TileArg(TILE)), 0))


def item() -> UOp:
    return programs.item_index(4)


Make = Callable[[], Program]
REFUSED: list[tuple[str, str, Make | UOp]] = [
    ("LittleDevice", "dtypes", squared(dtypes.int64)),
    ("LittleDevice", "dtypes", squared(dtypes.float64)),
    ("LittleDevice", "dtypes", lambda: stored(build.cast(build.const(INT, 1), dtypes.uint8))),
    ("LittleDevice", "ops", lambda: stored(build.unary(Ops.SQRT, build.const(FLOAT, 2.0)))),
    ("LittleDevice", "vector_lanes", vector),
    ("LittleDevice", "has_grid", lambda: stored(programs.group_index(4, 1), grid=(1, 4, 1))),
    ("LittleDevice", "has_groups", lambda: stored(item(), group=(4, 1, 1))),
    ("LittleDevice", "has_groups", lambda: programs.program("waits", build.barrier())),
    ("LittleDevice", "shared_bytes", lambda: local(4)),
    ("LittleDevice", "buffer_limit", buffers),
    ("LittleDevice", "images", textured),
    ("GroupDevice", "shared_bytes", lambda: local(17)),
    ("GroupDevice", "group_size_limit", lambda: stored(item(), group=(4, 3, 1))),
    ("GroupDevice", "group_limit", lambda: stored(item(), group=(1, 5, 1))),
    ("GroupDevice", "grid_limit", lambda: stored(item(), grid=(1, 11, 1), group=(4, 1, 1))),
]


@pytest.mark.table
@pytest.mark.parametrize(("device", "field", "kernel"), REFUSED)
def test_what_is_not_declared_is_refused_with_the_field(
    device: str, field: str, kernel: Make | UOp
) -> None:
    name = f"{__name__}:{device}"
    EagerRenderer.asked = 0
    compiled = compile_ast if isinstance(kernel, UOp) else compile_program
    operands = kernel if isinstance(kernel, UOp) else kernel()
    with pytest.raises(UserError, match=rf"\(capabilities\.{field}\)$"):
        compiled(name, operands)  # type: ignore[arg-type]
    assert EagerRenderer.asked == 0


def test_tiles_are_refused_with_theirs() -> None:
    class Wide(LittleDevice):
        declared = dataclasses.replace(LITTLE, vector_lanes=(1, 2))

    globals()["Wide"] = Wide
    with pytest.raises(UserError, match=r"WMMA: the device has no matrix tile .*matrix_tiles\)$"):
        compile_program(f"{__name__}:Wide", tile())


def test_nothing_of_it_is_compiled_ahead() -> None:
    EagerRenderer.asked = 0
    compile_ahead(f"{__name__}:LittleDevice", [vector(), buffers()])
    assert EagerRenderer.asked == 0


@pytest.mark.parametrize(
    ("device", "make"),
    [
        ("LittleDevice", lambda: stored(build.const(INT, 5))),
        ("GroupDevice", lambda: local(16)),
        ("GroupDevice", lambda: stored(item(), grid=(100, 10, 1), group=(4, 2, 1))),
    ],
)
def test_what_is_declared_reaches_the_renderer(device: str, make: Make) -> None:
    EagerRenderer.asked = 0
    kernel = compile_program(f"{__name__}:{device}", make())
    assert EagerRenderer.asked == 1
    assert kernel.source
    assert Device[f"{__name__}:{device}"].capabilities.buffer_limit == 2
