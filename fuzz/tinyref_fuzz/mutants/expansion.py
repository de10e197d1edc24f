"""Mutants of the expansion of lanes: copies, vectors, gates, and reduces over lanes."""

from __future__ import annotations

from tinyref_fuzz.mutants.mutant import Mutant

_ACCESSES = "tinyref.codegen.expand.accesses"
_COPIES = "tinyref.codegen.expand.copies"
_VECTORS = "tinyref.codegen.expand.vectors"
_STAGES = ("expand", "optimise")

LANES = (
    Mutant(
        name="shuffle-order-ignored",
        kind="GEP order ignored",
        module=_VECTORS,
        old="        return take(first, *(lane for _, lane in pieces))",
        new="        return take(first, *sorted(lane for _, lane in pieces))",
        resembles="a shuffle of all lanes of a vector was taken for the vector itself",
        stages=_STAGES,
    ),
    Mutant(
        name="tile-lane-order",
        kind="GEP order ignored",
        module=_COPIES,
        old="                for each in ranges:\n",
        new="                for each in reversed(ranges):\n",
        resembles="registers of a matrix tile were counted from the wrong end",
        stages=_STAGES,
        causes=("TC",),
    ),
    Mutant(
        name="upcast-lanes-in-wrong-order",
        kind="UPCAST lanes in the wrong order",
        module="tinyref.codegen.expand.positions",
        old="        return [(found.base, first + lane * between) for lane in range(lanes)]",
        new=(
            "        if between == 1 and lanes > 2:\n"
            "            order = [*range(0, lanes, 2), *range(1, lanes, 2)]\n"
            "            return [(found.base, first + lane) for lane in order]\n"
            "        return [(found.base, first + lane * between) for lane in range(lanes)]"
        ),
        resembles="even and odd lanes were stored half by half",
        stages=_STAGES,
    ),
    Mutant(
        name="copies-swapped",
        kind="UPCAST lanes in the wrong order",
        module="tinyref.codegen.expand.dependence",
        old="        return [number[tuple(each[i] for i in kept)] "
        "for each in self.assignments(mask)]",
        new=(
            "        found = [number[tuple(each[i] for i in kept)] "
            "for each in self.assignments(mask)]\n"
            "        return found if len(kept) != 1 else sorted(found)"
        ),
        resembles="of two upcast axes a value along one was taken in the order of the other",
        stages=_STAGES,
    ),
)

ACCESSES = (
    Mutant(
        name="packed-store-ungated",
        kind="gate dropped from a packed store",
        module=_COPIES,
        old="moved(run.site.base, start)), vector, run.site.gate",
        new="moved(run.site.base, start)), vector, "
        "run.site.gate if vector.dtype.lanes == 1 else None",
        resembles="stores put together to a vector lost the gate that each of them had",
        stages=_STAGES,
    ),
    Mutant(
        name="packed-load-ungated",
        kind="gate dropped from a packed load",
        module=_COPIES,
        old="            found = build.load(address, site.gate, alternative, width)",
        new="            found = build.load(address, None if width > 1 else site.gate, "
        "alternative, width)",
        resembles="a vector was loaded with no regard to the mask of its lanes",
        stages=_STAGES,
    ),
    Mutant(
        name="one-gate-for-all-lanes",
        kind="gate dropped from a packed store",
        module=_ACCESSES,
        old="                run = runs.get((base, gate))\n",
        new="                run = next((r for (at, _), r in runs.items() if at is base), None)\n",
        resembles="neighbours went as one vector under the gate of the first of them",
        stages=_STAGES,
    ),
    Mutant(
        name="closed-gate-ignored",
        kind="gate dropped from a packed load",
        module=_COPIES,
        old="        if cell is None:\n            return node.src[1], 0\n",
        new="        if cell is None:\n            return build.const(node.dtype, 1), 0\n",
        resembles="lanes that are certainly in the padding were left as they happened to be",
        stages=_STAGES,
    ),
    Mutant(
        name="vector-of-unaligned-address",
        kind="vector access of an unaligned address",
        module=_ACCESSES,
        old="            if width > self.most or divisor % width:",
        new="            if width > self.most:",
        resembles="a float4 access was made at an address that need not be a multiple of four",
        stages=_STAGES,
    ),
    Mutant(
        name="vector-from-odd-start",
        kind="vector access of an unaligned address",
        module=_ACCESSES,
        old="                if start % width == 0 and left.issuperset(lanes):",
        new="                if left.issuperset(lanes):",
        resembles="a view that starts at an odd element was read as if it did not",
        stages=_STAGES,
    ),
    Mutant(
        name="vector-beyond-what-is-wanted",
        kind="vector access of too much",
        module=_ACCESSES,
        old="                if start % width == 0 and left.issuperset(lanes):",
        new="                if start % width == 0 and left.issuperset(lanes[:-1]):",
        resembles="three elements were read and written as four",
        stages=_STAGES,
    ),
    Mutant(
        name="texel-row-and-column-swapped",
        kind="texels",
        module="tinyref.codegen.expand",
        old="build.texel(src[0], simplify(row), simplify(column))",
        new="build.texel(src[0], simplify(column), simplify(row))",
        resembles="an image was read with x and y exchanged",
        stages=("expand",),
    ),
)

REDUCES = (
    Mutant(
        name="max-of-lanes-as-sum",
        kind="MAX collapsed as ADD",
        module=_VECTORS,
        old="        paired = [UOp(op, x.dtype, (x, y)) ",
        new="        op = Ops.ADD if op is Ops.MAX and not values[0].dtype.is_bool else op\n"
        "        paired = [UOp(op, x.dtype, (x, y)) ",
        resembles="whatever was reduced over unrolled lanes was added up",
        stages=_STAGES,
        causes=("UNROLL",),
    ),
    Mutant(
        name="product-of-lanes-as-sum",
        kind="MAX collapsed as ADD",
        module=_VECTORS,
        old="        vector = UOp(op, halves[0].dtype, halves)",
        new="        vector = UOp(Ops.MAX if op is Ops.ADD else op, halves[0].dtype, halves)",
        resembles="halves of a vector were combined by another operation than their lanes",
        stages=_STAGES,
        causes=("UNROLL",),
    ),
    Mutant(
        name="half-of-the-lanes",
        kind="lanes lost",
        module=_VECTORS,
        old="take(vector, *lanes[:half]), take(vector, *lanes[half:])",
        new="take(vector, *lanes[:half]), take(vector, *lanes[:half])",
        resembles="one half of a vector was added to itself",
        stages=_STAGES,
        causes=("UNROLL",),
    ),
    Mutant(
        name="constant-term-once",
        kind="lanes lost",
        module=_COPIES,
        old="            turns[number] += [copy] * times\n",
        new="            turns[number] += [copy]\n",
        resembles="a term that is the same in every lane of an unrolled sum was added once",
        stages=_STAGES,
        causes=("UNROLL",),
    ),
    Mutant(
        name="odd-lane-lost",
        kind="lanes lost",
        module=_VECTORS,
        old="        values = [*paired, values[-1]] if len(values) % 2 else paired",
        new="        values = [*paired, values[-1]] if len(values) % 4 == 3 else paired",
        resembles="the last of an odd number of terms had no partner and fell away",
        stages=_STAGES,
        causes=("UNROLL",),
    ),
)

MUTANTS = (*LANES, *ACCESSES, *REDUCES)
