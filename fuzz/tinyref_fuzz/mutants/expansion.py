"""Mutants of the expansion of lanes: copies, vectors, gates, and reduces over lanes."""

from __future__ import annotations

import functools

from tinyref_fuzz.mutants.mutant import Mutant

_ACCESSES = "tinyref.codegen.expand.accesses"
_COPIES = "tinyref.codegen.expand.copies"
_VECTORS = "tinyref.codegen.expand.vectors"
_STAGES = ("expand", "optimise")

_lane = functools.partial(Mutant, kind="GEP order ignored", stages=_STAGES)
LANES = (
    _lane(
        name="shuffle-order-ignored",
        module=_VECTORS,
        old="        return take(first, *(lane for _, lane in pieces))",
        new="        return take(first, *sorted(lane for _, lane in pieces))",
        resembles="a shuffle of all lanes of a vector was taken for the vector itself",
    ),
    _lane(
        name="tile-lane-order",
        module=_COPIES,
        old="                for each in ranges:\n",
        new="                for each in reversed(ranges):\n",
        resembles="registers of a matrix tile were counted from the wrong end",
        causes=("TC",),
    ),
    _lane(
        name="upcast-lanes-in-wrong-order",
        kind="UPCAST lanes in the wrong order",
        module="tinyref.codegen.expand.positions",
        old="        return [(found.base, first + lane * between) for lane in range(lanes)]",
        new="        if between == 1 and lanes > 2:\n"
        "            order = [*range(0, lanes, 2), *range(1, lanes, 2)]\n"
        "            return [(found.base, first + lane) for lane in order]\n"
        "        return [(found.base, first + lane * between) for lane in range(lanes)]",
        resembles="even and odd lanes were stored half by half",
    ),
    _lane(
        name="mirrored-lanes-not-reversed",
        kind="UPCAST lanes in the wrong order",
        module="tinyref.codegen.expand.positions",
        old="        return self.constant + sum(k * counters[term] "
        "for term, k in self.steps.items())",
        new="        return self.constant + sum(\n"
        "            k * (counters[term] if k > 0 else 1 - counters[term])\n"
        "            for term, k in self.steps.items()\n"
        "        )",
        resembles="of two copies of an axis that is read backward each had the other's element",
    ),
    _lane(
        name="copies-swapped",
        kind="UPCAST lanes in the wrong order",
        module="tinyref.codegen.expand.dependence",
        old="        return [number[tuple(each[i] for i in kept)] "
        "for each in self.assignments(mask)]",
        new="        found = [number[tuple(each[i] for i in kept)] "
        "for each in self.assignments(mask)]\n"
        "        return found if len(kept) != 1 else sorted(found)",
        resembles="of two upcast axes a value along one was taken in the order of the other",
    ),
)

_access = functools.partial(
    Mutant, kind="gate dropped from a packed store", module=_ACCESSES, stages=_STAGES
)
ACCESSES = (
    _access(
        name="packed-store-ungated",
        module=_COPIES,
        old="            stores.append(build.store(address, vector, gate))",
        new="            stores.append(build.store(address, vector, "
        "gate if vector.dtype.lanes == 1 else None))",
        resembles="stores put together to a vector lost the gate that each of them had",
    ),
    _access(
        name="packed-load-ungated",
        kind="gate dropped from a packed load",
        module=_COPIES,
        old="            found = build.load(address, gate, alternative, width)",
        new="            found = build.load(address, None if width > 1 else gate, "
        "alternative, width)",
        resembles="a vector was loaded with no regard to the mask of its lanes",
    ),
    _access(
        name="one-gate-for-all-lanes",
        old="                run = runs.get((base, gate))\n",
        new="                run = next((r for (at, _), r in runs.items() if at is base), None)\n",
        resembles="neighbours went as one vector under the gate of the first of them",
    ),
    _access(
        name="closed-gate-ignored",
        kind="gate dropped from a packed load",
        module=_COPIES,
        old="        if cell is None:\n            return node.src[1], 0\n",
        new="        if cell is None:\n            return build.const(node.dtype, 1), 0\n",
        resembles="lanes that are certainly in the padding were left as they happened to be",
    ),
    _access(
        name="vector-of-unaligned-address",
        kind="vector access of an unaligned address",
        old="            if width > self.most or divisor % width:",
        new="            if width > self.most:",
        resembles="a float4 access was made at an address that need not be a multiple of four",
    ),
    _access(
        name="vector-from-odd-start",
        kind="vector access of an unaligned address",
        old="                if start % width == 0 and left.issuperset(lanes):",
        new="                if left.issuperset(lanes):",
        resembles="a view that starts at an odd element was read as if it did not",
    ),
    _access(
        name="vector-beyond-what-is-wanted",
        kind="vector access of too much",
        old="                if start % width == 0 and left.issuperset(lanes):",
        new="                if start % width == 0 and left.issuperset(lanes[:-1]):",
        resembles="three elements were read and written as four",
    ),
    _access(
        name="texel-row-and-column-swapped",
        kind="texels",
        module="tinyref.codegen.expand",
        old="build.texel(src[0], simplify(row), simplify(column))",
        new="build.texel(src[0], simplify(column), simplify(row))",
        resembles="an image was read with x and y exchanged",
        stages=("expand",),
    ),
)

_reduce = functools.partial(
    Mutant, kind="lanes lost", module=_VECTORS, stages=_STAGES, causes=("UNROLL",)
)
REDUCES = (
    _reduce(
        name="max-of-lanes-as-sum",
        kind="MAX collapsed as ADD",
        old="        paired = [_of_two(op, x, y) ",
        new="        op = Ops.ADD if op is Ops.MAX and not values[0].dtype.is_bool else op\n"
        "        paired = [_of_two(op, x, y) ",
        resembles="whatever was reduced over unrolled lanes was added up",
    ),
    _reduce(
        name="product-of-lanes-as-sum",
        kind="MAX collapsed as ADD",
        old="        vector = _of_two(op, *halves)",
        new="        vector = _of_two(Ops.MAX if op is Ops.ADD else op, *halves)",
        resembles="halves of a vector were combined by another operation than their lanes",
    ),
    _reduce(
        name="half-of-the-lanes",
        old="take(vector, *lanes[:half]), take(vector, *lanes[half:])",
        new="take(vector, *lanes[:half]), take(vector, *lanes[:half])",
        resembles="one half of a vector was added to itself",
    ),
    _reduce(
        name="constant-term-once",
        module=_COPIES,
        old="            iterations[number] += [copy] * times\n",
        new="            iterations[number] += [copy]\n",
        resembles="a term that is the same in every lane of an unrolled sum was added once",
    ),
    _reduce(
        name="odd-lane-lost",
        old="        values = [*paired, values[-1]] if len(values) % 2 else paired",
        new="        values = [*paired, values[-1]] if len(values) % 4 == 3 else paired",
        resembles="the last of an odd number of terms had no partner and fell away",
    ),
)

MUTANTS = (*LANES, *ACCESSES, *REDUCES)
