"""Mutants of lowering: launches, addresses, gates, stores and scratch memory."""

from __future__ import annotations

import functools

from tinyref_fuzz.mutants.mutant import Mutant

_LOWER = "tinyref.codegen.lower"
_LAUNCH = "tinyref.optimise.launch"
_CRAMPED = "tinyref_fuzz.judge.devices:Cramped"

# What only shows with optimisations may be laid to them.
_STAGES = ("lower", "optimise")

_store = functools.partial(Mutant, kind="store gated wrongly", module=_LOWER, stages=_STAGES)
STORES = (
    _store(
        name="store-gated-on-one-group-axis",
        kind="store gated on one group axis",
        old="                gate = build.both(gate, build.equal(self.counters[axis], 0))",
        new="                gate = build.both(self.in_launch, "
        "build.equal(self.counters[axis], 0))",
        resembles="of two grouped axes only the last one kept a result from being written twice",
        is_race=True,
    ),
    _store(
        name="small-output-written-by-all",
        old="            is_extra = is_output and axis.target not in written",
        new="            is_extra = is_output and axis.target not in written and axis.stride > 1",
        resembles="an output that is smaller than another of its kernel was written many times",
        is_race=True,
    ),
    _store(
        name="second-output-under-first-gate",
        old="        written = axes_of(store.src[0])",
        new="        written = axes_of(self.plan.form.ast.src[0].src[0])",
        resembles="every output of a kernel was stored under the gate of the first",
    ),
    _store(
        name="padded-store-ungated",
        old="        gated = axes_of(view) if targets is None else targets",
        new="        gated = frozenset() if targets is None else targets",
        resembles="positions that padding has added were read and written like all others",
        causes=("PADTO", "TC"),
    ),
    _store(
        name="padding-of-first-axis-unmasked",
        kind="padding unmasked",
        old="            if self.plan.is_padded(target):",
        new="            if self.plan.is_padded(target) and target > 0:",
        resembles="axis 0 was taken for no axis at all where padding is masked",
        causes=("PADTO", "TC"),
    ),
)

_load = functools.partial(Mutant, kind="ungated folded index", module=_LOWER, stages=("lower",))
LOADS = (
    _load(
        name="masked-load-gives-one",
        kind="a gate lost",
        old="        return build.load(address, valid, 0)",
        new="        return build.load(address, valid, 1 if node.dtype.is_unsigned else 0)",
        resembles="the value of masked elements was right for signed types and floats alone",
    ),
    _load(
        name="numbers-ignore-mask",
        kind="a gate lost",
        old="        return build.where(self._valid(axes_of(view), valid, positions), number, 0)",
        new="        return number",
        resembles="numbers of elements went on into the padding around them",
    ),
    _load(
        name="folded-index-ungated-below",
        old="    is_there = build.at_least(value, 0)\n",
        new="    is_there = build.at_least(value, -1)\n",
        resembles="an index of -1 was looked up like any other",
    ),
    _load(
        name="folded-index-ungated-above",
        old="        is_there = build.both(is_there, build.less(value, size))",
        new="        is_there = build.both(is_there, build.less(value, size + 1))",
        resembles="an index just beyond the last element was looked up like any other",
    ),
    _load(
        name="folded-range-loses-identity",
        module="tinyref.optimise.fold_ranges",
        old="        result = _where(guard, result, identity)",
        new="        result = _where(guard, result, build.const(reduce.dtype, 0))",
        resembles="a maximum that chose nothing gave 0 instead of the least value",
        stages=("normal",),
    ),
)

_group = functools.partial(
    Mutant, kind="stale group indices", module=_LOWER, stages=_STAGES, causes=("GROUP", "GROUPTOP")
)
GROUPS = (
    _group(
        name="group-results-of-one-axis",
        kind="partial results read with the wrong count",
        old="        for axis in shared:\n            others[axis]",
        new="        shared = shared[:1]\n        for axis in shared:\n            others[axis]",
        resembles="of two grouped axes only one was reduced in the end",
    ),
    _group(
        name="stale-group-index",
        old="        element = build.load(build.index(filled, flat((*items, *lanes), others)))",
        new="        element = build.load(build.index(filled, "
        "flat((*items, *lanes), self.counters)))",
        resembles="after a grouped reduce every work-item went on with its own index",
    ),
    _group(
        name="local-memory-without-locals",
        kind="wrong local count on a full unroll",
        old="number_of(a.extent for a in (*items, *lanes)))\n        place = memory",
        new="number_of(a.extent for a in (*shared, *lanes)))\n        place = memory",
        resembles="room for partial results was counted without the other work-items",
        causes=("LOCAL", "GROUP", "GROUPTOP"),
    ),
    _group(
        name="group-lanes-share-place",
        old="build.store(build.index(place, flat((*items, *lanes), self.counters)), part)",
        new="build.store(build.index(place, flat((*items, *lanes[1:]), self.counters)), part)",
        resembles="lanes of a grouped reduce wrote their parts to the same place",
        causes=("UPCAST", "UNROLL", "GROUP", "GROUPTOP"),
    ),
)

_pack = functools.partial(Mutant, module=_LOWER, stages=_STAGES, device="CPU")
PACKS = (
    _pack(
        name="kept-lanes-share-place",
        kind="scratch index wrong",
        old="build.add(build.mul(position, count), flat(lanes, self.counters))",
        new="build.add(build.mul(position, count), flat(lanes[1:], self.counters))",
        resembles="lanes of a softmax wrote their powers over each other's",
        causes=("PACK", "UPCAST"),
    ),
    _pack(
        name="packed-index-reversed",
        kind="scratch index wrong",
        old="        copied = build.load(build.index(filled, flat(inside, self.counters)))",
        new="        copied = build.load(build.index(filled, flat(inside[::-1], self.counters)))",
        resembles="a packed copy was written row by row and read column by column",
        causes=("PACK",),
    ),
    _pack(
        name="packed-copy-ungated",
        kind="padding unmasked",
        old="        return build.where(self._valid(added, TRUE, self.positions), copied, 0)",
        new="        return copied",
        resembles="what padding adds to a reduce was read from the copy as if it were there",
        causes=("PACK", "PADTO"),
    ),
)

_launch = functools.partial(
    Mutant, kind="halved odd grid dims", module=_LAUNCH, stages=("lower",), device=_CRAMPED
)
LAUNCHES = (
    _launch(
        name="odd-grid-halved",
        old="        size = _largest_divisor(total, most)",
        new="        size = min(total, most)",
        resembles="a grid dimension that is too large was divided though that leaves a remainder",
    ),
    _launch(
        name="grid-dims-overlap",
        old="build.add(build.mul(index, stride), flat)",
        new="build.add(build.mul(index, stride - (dim == 2)), flat)",
        resembles="the weight of the third dimension of a launch was one too small",
    ),
    _launch(
        name="merged-dims-split-wrongly",
        old="    for extent in reversed(extents[1:]):",
        new="    for extent in reversed(extents[:-1]):",
        resembles="axes merged into one launch dimension were taken apart by the wrong sizes",
    ),
    _launch(
        name="in-place-read-beyond-launch",
        kind="a write before others have read",
        module=_LOWER,
        old="        if slot_of(node) in self._written:",
        new="        if slot_of(node) not in self._written:",
        resembles="a work-item beyond the last element read the one that another was writing",
        is_race=True,
    ),
    _launch(
        name="symbolic-extent-short",
        kind="symbolic extent off by one",
        module=_LOWER,
        old="                self.counters[axis] = self.range(axis.extent, kind)",
        new="                extent = axis.extent\n"
        "                if isinstance(extent, UOp):\n"
        "                    extent = build.add(extent, -1)\n"
        "                self.counters[axis] = self.range(extent, kind)",
        resembles="a loop of symbolic length stopped one iteration early",
        device="PYTHON",
    ),
)

_tile = functools.partial(
    Mutant, module="tinyref.codegen.lower_tile", stages=_STAGES, causes=("TC",)
)
TILES = (
    _tile(
        name="tile-bit-weight-lost",
        kind="wrong lane layout of a tile",
        old="total = build.add(build.mul(lowering.counters[axis], bit.weight), total)",
        new="total = build.add(build.mul(lowering.counters[axis], min(bit.weight, 4)), total)",
        resembles="threads beyond the eighth row of a tile loaded the rows of others",
    ),
    _tile(
        name="tile-memory-rows-overlap",
        kind="scratch index wrong",
        old="    element = build.add(build.mul(place[row], columns), place[column])",
        new="    element = build.add(build.mul(place[row], min(rows, columns)), place[column])",
        resembles="rows of a fragment in shared memory were laid out by the wrong dimension",
    ),
)

MUTANTS = (*STORES, *LOADS, *GROUPS, *PACKS, *LAUNCHES, *TILES)
