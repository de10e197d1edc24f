"""Mutants of barriers and of local memory that is shared: races and divergence."""

from __future__ import annotations

import functools

from tinyref_fuzz.mutants.mutant import Mutant

_LOWER = "tinyref.codegen.lower"
_TILE = "tinyref.codegen.lower_tile"
_STAGES = ("lower", "optimise")

_mutant = functools.partial(
    Mutant, kind="missing leading barrier in a loop", module=_LOWER, stages=_STAGES, is_race=True
)
MUTANTS = (
    _mutant(
        name="no-leading-barrier-in-loop",
        old="        if self.is_in_loop(node):",
        new="        if self.is_in_loop(node) and not shared:",
        resembles="the next iteration wrote partial results before all had read those of the last",
    ),
    _mutant(
        name="leading-barrier-waits-for-nothing",
        old="            place = build.after(memory, all_have_read)",
        new="            place = build.after(memory, part)",
        resembles="the barrier stood before the loop instead of in it",
    ),
    _mutant(
        name="no-barrier-after-grouped-reduce",
        kind="missing barrier",
        old="        filled = build.after(memory, barrier)",
        new="        filled = build.after(memory, *barrier.src)",
        resembles="partial results were read as soon as the reader had written its own",
    ),
    _mutant(
        name="barrier-waits-for-nothing",
        kind="missing barrier",
        module="tinyref.codegen.linearise.graph",
        old="(self._wait([self.nodes[other] for other in items], items),)",
        new="()",
        resembles="a scheduler moved a barrier above the stores that it was for",
        stages=("linearise",),
    ),
    _mutant(
        name="barrier-in-branch",
        kind="barrier inside a branch",
        module="tinyref.codegen.linearise.linearise",
        old="        forms[item] = form\n        emitted.append(form)\n",
        new="        forms[item] = form\n"
        "        items_of = [n for n in emitted if getattr(n.arg, 'scope', '') == 'item']\n"
        "        if op is not Ops.BARRIER or not items_of:\n"
        "            emitted.append(form)\n"
        "            continue\n"
        "        zero = build.const(items_of[0].dtype, 0)\n"
        "        goes = build.binary(Ops.CMPNE, items_of[0], zero)\n"
        "        branch = build.branch(goes)\n"
        "        ends = build.close(branch)\n"
        "        added = [node for node in (zero, goes) if node not in emitted]\n"
        "        emitted += [*added, branch, form, ends]\n",
        resembles="a barrier slid under the gate of a store, where not all work-items come",
        stages=("linearise",),
    ),
    _mutant(
        name="reduces-share-local-memory",
        kind="two reduces sharing local memory",
        old='LocalArg(f"temp{next(self.local_numbers)}"))',
        new='LocalArg(f"temp{next(self.local_numbers) // 2}"))',
        resembles="two buffers of one name: the second reduce wrote where others still read",
    ),
    _mutant(
        name="tile-memory-without-barrier",
        kind="missing barrier",
        module=_TILE,
        old="        _element(lowering, use, operand, build.after(memory, barrier))",
        new="        _element(lowering, use, operand, build.after(memory, *stores))",
        resembles="fragments were read from shared memory before all threads had left theirs",
        causes=("TC",),
    ),
    _mutant(
        name="tile-memory-without-leading-barrier",
        module=_TILE,
        old="    ready = _all_have_read(lowering, use, fragments)\n",
        new="    ready = _all_have_read(lowering, use, fragments)[1:]\n",
        resembles="the next iteration along k overwrote fragments that others were still to read",
        causes=("TC",),
    ),
    _mutant(
        name="loop-on-host-only",
        old="        return bool(self.plan.axes_of(node, *kinds))",
        new="        return len(self.plan.axes_of(node, *kinds)) > 1",
        resembles="one loop around a grouped reduce was thought to need no barrier of its own",
    ),
)
