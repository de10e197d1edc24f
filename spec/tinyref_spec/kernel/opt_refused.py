"""Refused optimisations: on which kernel, after what, and the reason that must be named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from tinyref.capabilities import Capabilities
from tinyref.optimise.opt import OptOp
from tinyref_spec.kernel.padded_terms import OTHER_BEYOND

_TERMS = "terms that are not 0"
# The device under test as if it had less: one thread, little memory, small groups.
Change = Callable[[Capabilities], Capabilities]


def as_it_is(capabilities: Capabilities) -> Capabilities:
    """No change."""
    return capabilities


@dataclass(frozen=True)
class Refused:
    """One row: `opt` is refused with `reason` after `before`, on a device after `change`.

    name: OP.REASON. Without a change the device is the one under test as it is.
    """

    name: str
    kernel: str
    opt: str
    reason: str
    before: str = ""
    change: Change = as_it_is
    dtype: str = "int32"
    features: frozenset[str] = frozenset()
    full_only: bool = False

    @property
    def op(self) -> OptOp:
        """The optimisation that is refused."""
        return OptOp[self.name.partition(".")[0].upper()]

    @property
    def reason_name(self) -> str:
        """The reason as one word."""
        return self.name.partition(".")[2]


GROUPS = frozenset({"groups"})
SCRATCH = frozenset({"scratch"})
THREADS = frozenset({"threads"})

_LANES = (
    Refused("upcast.no_axis", "add", "UPCAST(1, 2)", "there is no axis 1"),
    Refused("upcast.negative_axis", "add", "UPCAST(-1, 2)", "there is no axis -1"),
    Refused("upcast.reduce_axis", "row_sum", "UPCAST(1, 4)", "axis 1 is reduce"),
    Refused("upcast.not_dividing", "add", "UPCAST(0, 5)", "5 is no amount that divides 24"),
    Refused("upcast.too_many", "add", "UPCAST(0, 24)", "24 lanes"),
    Refused("upcast.whole_too_many", "add", "UPCAST(0, 0)", "24 lanes"),
    Refused("upcast.one", "add", "UPCAST(0, 1)", "1 is no amount"),
    Refused("upcast.negative", "add", "UPCAST(0, -4)", "-4 is no amount"),
    Refused("upcast.symbolic", "symbolic_rows", "UPCAST(0, 2)", "symbolic extent n"),
    Refused("upcast.lanes", "add", "UPCAST(1, 2)", "axis 1 is upcast", "UPCAST(0, 4)"),
    Refused("upcast.inside_cut", "add", "UPCAST(0, 4)", "divides 6", "UPCAST(0, 4)"),
    Refused("unroll.output_axis", "row_sum", "UNROLL(0, 2)", "axis 0 is global"),
    Refused("unroll.already", "row_sum", "UNROLL(2, 2)", "unrolled already", "UNROLL(1, 4)"),
    Refused("unroll.too_many", "all_sum", "UNROLL(0, 64)", "64 copies"),
    Refused("unroll.whole_too_many", "all_sum", "UNROLL(0, 0)", "64 copies"),
    Refused("unroll.not_dividing", "prime_sum", "UNROLL(1, 4)", "4 is no amount that divides 11"),
    Refused("unroll.symbolic", "symbolic_columns", "UNROLL(1, 4)", "symbolic extent n"),
    Refused(
        "unroll.lanes_in_all",
        "large_product",
        "UNROLL(0, 32)",
        "8192 lanes and copies in all: accepted are 4096",
        "UPCAST(0, 16) UPCAST(0, 16)",
        full_only=True,
    ),
    Refused("unroll.lanes", "column_sum", "UNROLL(2, 2)", "axis 2 is upcast", "UPCAST(0, 4)"),
)
_GROUPS = (
    Refused(
        "local.no_groups",
        "add",
        "LOCAL(0, 4)",
        "no groups",
        change=partial(replace, has_groups=False),
    ),
    Refused("local.reduce_axis", "row_sum", "LOCAL(1, 4)", "axis 1 is reduce", features=GROUPS),
    Refused(
        "local.local_axis", "add", "LOCAL(1, 2)", "axis 1 is local", "LOCAL(0, 4)", features=GROUPS
    ),
    Refused("local.not_dividing", "prime", "LOCAL(0, 4)", "divides 7", features=GROUPS),
    Refused("local.symbolic", "symbolic_rows", "LOCAL(0, 2)", "symbolic extent n", features=GROUPS),
    Refused(
        "local.too_large",
        "outer",
        "LOCAL(1, 6)",
        "a group of 24 work-items, accepted are 16",
        "LOCAL(0, 4)",
        change=partial(replace, group_size_limit=16),
        features=GROUPS,
    ),
    Refused(
        "local.dimension",
        "add",
        "LOCAL(0, 8)",
        "does not fit the limits (4, 4, 4)",
        change=partial(replace, group_limit=(4, 4, 4)),
        features=GROUPS,
    ),
    Refused(
        "local.after_nolocals",
        "add",
        "LOCAL(0, 4)",
        "NOLOCALS has switched groups off",
        "NOLOCALS(0, 0)",
        features=GROUPS,
    ),
    Refused(
        "group.no_groups",
        "row_sum",
        "GROUP(1, 4)",
        "no groups",
        change=partial(replace, has_groups=False),
    ),
    Refused(
        "group.no_shared_memory",
        "row_sum",
        "GROUP(1, 4)",
        "no shared memory",
        change=partial(replace, shared_bytes=0),
        features=GROUPS,
    ),
    Refused(
        "group.memory_limit",
        "row_sum",
        "GROUP(1, 8)",
        "32 bytes of shared memory, accepted are 31",
        change=partial(replace, shared_bytes=31),
        features=GROUPS,
    ),
    Refused(
        "group.memory_of_two",
        "two_lengths",
        "GROUP(3, 3)",
        "96 bytes of shared memory, accepted are 95",
        "GROUP(1, 4)",
        change=partial(replace, shared_bytes=95),
        features=GROUPS,
    ),
    Refused(
        "group.memory_of_the_device",
        "large_product",
        "UPCAST(0, 16)",
        "bytes of shared memory",
        "GROUP(2, 128) UPCAST(0, 16)",
        dtype="int64",
        features=GROUPS,
        full_only=True,
    ),
    Refused("group.output_axis", "row_sum", "GROUP(0, 2)", "axis 0 is global", features=GROUPS),
    Refused("group.not_dividing", "prime_sum", "GROUP(1, 4)", "divides 11", features=GROUPS),
    Refused("group.symbolic", "symbolic_columns", "GROUP(1, 2)", "extent n", features=GROUPS),
    Refused("group.two_reduces", "sibling", "GROUP(1, 4)", "2 reduces go over", features=GROUPS),
    Refused(
        "group.two_outputs", "reduce_outputs", "GROUP(1, 4)", "2 reduces go over", features=GROUPS
    ),
    Refused(
        "group.in_place", "sum_in_place", "GROUP(1, 4)", "reads what it writes", features=GROUPS
    ),
    Refused(
        "group.too_large",
        "row_sum",
        "GROUP(2, 4)",
        "a group of 12 work-items, accepted are 8",
        "LOCAL(0, 3)",
        change=partial(replace, group_size_limit=8),
        features=GROUPS,
    ),
    Refused(
        "group.after_nolocals",
        "row_sum",
        "GROUP(1, 4)",
        "NOLOCALS",
        "NOLOCALS(0, 0)",
        features=GROUPS,
    ),
    Refused(
        "grouptop.no_groups",
        "row_sum",
        "GROUPTOP(1, 4)",
        "no groups",
        change=partial(replace, has_groups=False),
    ),
    Refused("grouptop.not_dividing", "row_sum", "GROUPTOP(1, 3)", "divides 16", features=GROUPS),
    Refused("grouptop.two_reduces", "sibling", "GROUPTOP(1, 4)", "2 reduces", features=GROUPS),
    Refused(
        "grouptop.memory_limit",
        "row_sum",
        "GROUPTOP(1, 8)",
        "32 bytes of shared memory, accepted are 31",
        change=partial(replace, shared_bytes=31),
        features=GROUPS,
    ),
    Refused(
        "nolocals.no_groups",
        "add",
        "NOLOCALS(0, 0)",
        "no groups",
        change=partial(replace, has_groups=False),
    ),
    Refused(
        "nolocals.local", "add", "NOLOCALS(0, 0)", "used already", "LOCAL(0, 4)", features=GROUPS
    ),
    Refused(
        "nolocals.group",
        "row_sum",
        "NOLOCALS(0, 0)",
        "used already",
        "GROUP(1, 4)",
        features=GROUPS,
    ),
    Refused(
        "nolocals.twice",
        "add",
        "NOLOCALS(0, 0)",
        "switched off already",
        "NOLOCALS(0, 0)",
        features=GROUPS,
    ),
)
_ORDER = (
    Refused("swap.reduce_axis", "row_sum", "SWAP(0, 1)", "axis 1 is reduce"),
    Refused("swap.first_axis", "row_sum", "SWAP(1, 0)", "axis 1 is reduce"),
    Refused("swap.lanes", "outer", "SWAP(0, 2)", "axis 2 is upcast", "UPCAST(1, 4)"),
    Refused("swap.local", "outer", "SWAP(0, 2)", "axis 2 is local", "LOCAL(1, 4)", features=GROUPS),
    Refused("swap.itself", "outer", "SWAP(1, 1)", "cannot change places with itself"),
    Refused("swap.no_axis", "outer", "SWAP(0, 2)", "there is no axis 2"),
    Refused("swap.negative_axis", "outer", "SWAP(0, -1)", "there is no axis -1"),
    Refused("padto.symbolic", "symbolic_rows", "PADTO(0, 4)", "symbolic extent n"),
    Refused("padto.upcast", "outer", "PADTO(2, 3)", "unrolled into lanes", "UPCAST(1, 4)"),
    Refused("padto.unroll", "row_sum", "PADTO(2, 3)", "unrolled into lanes", "UNROLL(1, 4)"),
    Refused(
        "padto.local", "outer", "PADTO(2, 3)", "axis 2 is local", "LOCAL(1, 4)", features=GROUPS
    ),
    Refused("padto.maximum", "row_max", "PADTO(1, 5)", "a reduce by MAX"),
    Refused("padto.product", "product", "PADTO(1, 5)", "a reduce by MUL"),
    Refused("padto.sibling", "sibling", "PADTO(1, 5)", "a reduce by MAX"),
    Refused("padto.inner_maximum", "nested", "PADTO(2, 5)", "a reduce by MAX"),
    Refused("padto.terms", "shifted_sum", "PADTO(1, 4)", "terms that are not 0"),
    Refused("padto.softmax", "softmax", "PADTO(3, 3)", "terms that are not 0"),
    Refused("padto.infinite", "scaled_sum", "PADTO(1, 4)", "terms that are not 0", dtype="float32"),
    *(
        Refused(f"padto.{each.form}", each.form, "PADTO(1, 4)", _TERMS, dtype=each.dtype)
        for each in OTHER_BEYOND
    ),
    Refused("padto.too_much", "prime_sum", "PADTO(0, 32)", "32 positions for 5"),
    Refused("padto.too_much_in_steps", "prime_sum", "PADTO(0, 32)", "for 5", "PADTO(0, 8)"),
    Refused("padto.nothing", "row_sum", "PADTO(1, 8)", "nothing to pad"),
    Refused("padto.one", "prime_sum", "PADTO(0, 1)", "1 is no multiple"),
    Refused("padto.negative", "prime_sum", "PADTO(0, -4)", "-4 is no multiple"),
    Refused(
        "padto.inner_reduce",
        "row_sum",
        "PADTO(2, 3)",
        "the inner part of a cut",
        "GROUPTOP(1, 4)",
        features=GROUPS,
    ),
    Refused(
        "padto.inner_thread",
        "add",
        "PADTO(1, 5)",
        "the inner part of a cut",
        "THREAD(0, 2)",
        features=THREADS,
    ),
)
_HOSTS = (
    Refused(
        "thread.no_threads",
        "add",
        "THREAD(0, 2)",
        "2 threads: accepted are at most 1",
        change=partial(replace, threads=1, has_grid=False),
    ),
    Refused(
        "thread.too_many",
        "add",
        "THREAD(0, 3)",
        "3 threads: accepted are at most 2",
        change=partial(replace, threads=2, has_grid=False),
    ),
    Refused(
        "thread.grid",
        "add",
        "THREAD(0, 2)",
        "launch indices",
        change=partial(replace, threads=2, has_grid=True),
    ),
    Refused(
        "thread.reduce_axis",
        "row_sum",
        "THREAD(1, 2)",
        "axis 1 is reduce",
        change=partial(replace, threads=2, has_grid=False),
    ),
    Refused(
        "thread.not_dividing",
        "prime",
        "THREAD(0, 2)",
        "divides 7",
        change=partial(replace, threads=2, has_grid=False),
    ),
    Refused(
        "thread.twice", "add", "THREAD(1, 2)", "threads already", "THREAD(0, 2)", features=THREADS
    ),
    Refused(
        "pack.no_scratch",
        "matmul",
        "PACK(1, 1)",
        "no scratch",
        change=partial(replace, shared_bytes=0),
    ),
    Refused(
        "pack.groups",
        "matmul",
        "PACK(1, 1)",
        "no scratch",
        change=partial(replace, has_groups=True, shared_bytes=4096),
    ),
    Refused("pack.no_load", "matmul", "PACK(1, 7)", "0 loads of slot 7", features=SCRATCH),
    Refused("pack.output", "matmul", "PACK(1, 0)", "0 loads of slot 0", features=SCRATCH),
    Refused("pack.two_loads", "square", "PACK(1, 1)", "2 loads of slot 1", features=SCRATCH),
    Refused("pack.written", "sum_in_place", "PACK(0, 0)", "writes to slot 0", features=SCRATCH),
    Refused("pack.twice", "matmul", "PACK(1, 1)", "packed already", "PACK(1, 1)", features=SCRATCH),
    Refused("pack.no_reuse", "matmul", "PACK(1, -1)", "no value of a reduce", features=SCRATCH),
    Refused("pack.reused_axis", "softmax", "PACK(0, -1)", "along axis 0", features=SCRATCH),
    Refused(
        "pack.reused_twice",
        "softmax",
        "PACK(1, -1)",
        "packed already",
        "PACK(1, -1)",
        features=SCRATCH,
    ),
    Refused(
        "pack.reused_padded", "softmax", "PACK(1, -1)", "is padded", "PADTO(1, 3)", features=SCRATCH
    ),
    Refused(
        "pack.reused_memory_limit",
        "softmax",
        "PACK(1, -1)",
        "32 bytes of shared memory, accepted are 31",
        change=partial(replace, shared_bytes=31),
        features=SCRATCH,
    ),
    Refused(
        "padto.reused",
        "softmax",
        "PADTO(1, 3)",
        "of a value in scratch memory",
        "PACK(1, -1)",
        features=SCRATCH,
    ),
    Refused("pack.used_once", "matmul", "PACK(0, 1)", "each element once", features=SCRATCH),
    Refused("pack.no_reduce", "outer", "PACK(1, 1)", "stand in no reduce", features=SCRATCH),
    Refused("pack.reduce_axis", "matmul", "PACK(2, 1)", "axis 2 is reduce", features=SCRATCH),
    Refused(
        "pack.computed",
        "gathered_product",
        "PACK(1, 1)",
        "at positions that the kernel computes",
        features=SCRATCH,
    ),
    Refused("pack.symbolic", "symbolic_repeated", "PACK(0, 1)", "symbolic", features=SCRATCH),
    Refused(
        "pack.memory_limit",
        "matmul",
        "PACK(1, 1)",
        "64 bytes of shared memory, accepted are 63",
        change=partial(replace, shared_bytes=63),
        features=SCRATCH,
    ),
    Refused(
        "pack.memory_of_lanes",
        "matmul",
        "UPCAST(1, 2)",
        "128 bytes of shared memory, accepted are 64",
        "PACK(0, 2)",
        change=partial(replace, shared_bytes=64),
        features=SCRATCH,
    ),
)
REFUSED: tuple[Refused, ...] = _LANES + _GROUPS + _ORDER + _HOSTS
