"""What tensor programs must find: faults around kernels, which no single kernel shows.

They are not of the catalogue, by which the fuzzer of kernels is scored; `stages` are those of
`tinyref_fuzz.programs.blame`.
"""

from __future__ import annotations

from tinyref_fuzz.mutants.mutant import Mutant

_ASSIGNMENT = "tinyref.tensor.methods.assignment"
_CAPTURE = "tinyref.engine.capture"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="write-to-view-unseen-by-base",
        kind="assignment",
        module=_ASSIGNMENT,
        old="        return chosen._place_in_base(steps).where(placed, self)\n",
        new="        return chosen._place_in_base(steps).where(self, self)\n",
        resembles="an assignment to a slice that is lost",
        stages=("graph",),
    ),
    Mutant(
        name="other-views-keep-old-elements",
        kind="assignment",
        module=_ASSIGNMENT,
        old="                if tensor is not self:\n                    cast(Self",
        new="                if tensor is self:\n                    cast(Self",
        resembles="a view that does not see what was written to its base",
        stages=("graph", "schedule"),
    ),
    Mutant(
        name="set-item-forgets-flip",
        kind="assignment",
        module=_ASSIGNMENT,
        old="            return self._flip(argument.axes)\n",
        new="            return self\n",
        resembles="a setitem with a negative step that writes forwards",
        stages=("graph",),
    ),
    Mutant(
        name="shared-part-counted-once",
        kind="gradient",
        module="tinyref.tensor.gradient.walk",
        old="part if before is None else before + part",
        new="part if before is None else part",
        resembles="the gradient of a tensor that is used twice, of one use",
        stages=("graph",),
    ),
    Mutant(
        name="random-counter-stands",
        kind="random",
        module="tinyref.tensor.methods.random",
        old="stream.counter.assign(stream.counter.add(count))",
        new="stream.counter.assign(stream.counter.add(0))",
        resembles="two draws that give the same numbers",
        stages=("graph",),
    ),
    Mutant(
        name="write-before-read",
        kind="order",
        module="tinyref.schedule.order",
        old="                    self._add(assigner[assign], number)\n",
        new="                    self._add(number, assigner[assign])\n",
        resembles="a kernel that reads a buffer after the assignment that it has to precede",
        stages=("schedule",),
        causes=("hazards",),
    ),
    Mutant(
        name="later-graphs-not-computed-first",
        kind="order",
        module="tinyref.schedule.hazards",
        old="versions.reading_old(live.values())",
        new="versions.reading_old(())",
        resembles="a tensor that is computed later, from a buffer that was assigned to",
        stages=("schedule",),
        causes=("hazards",),
    ),
    Mutant(
        name="reduce-joined-at-another-place",
        kind="fusion",
        module="tinyref.schedule.join",
        old="            self.is_impossible = True\n",
        new="            self.is_impossible = False\n",
        resembles="a kernel that takes the value of another one at the wrong position",
        stages=("schedule",),
        causes=("fusion",),
    ),
    Mutant(
        name="arena-reuses-what-is-read-last",
        kind="memory",
        module="tinyref.schedule.memory",
        old="            found[key] = (found[key][0] if key in found else number, number)\n",
        new="            found.setdefault(key, (number, number))\n",
        resembles="a memory plan that gives away a buffer that is still to be read",
        stages=("memory plan",),
    ),
    Mutant(
        name="replay-keeps-old-argument",
        kind="replay",
        module=_CAPTURE,
        old="            if self.memory.get(number) is not buffer:\n",
        new="            if self.memory.get(number) is None:\n",
        resembles="a replay that reads the tensors of an earlier call",
        stages=("replay",),
    ),
    Mutant(
        name="replay-keeps-old-size",
        kind="replay",
        module=_CAPTURE,
        old="                bound.vary(self.bindings)\n",
        new="                bound.vary(dict(bound.bindings))\n",
        resembles="a replay with the sizes of an earlier call",
        stages=("replay",),
    ),
    Mutant(
        name="variable-ends-early",
        kind="symbolic",
        module="tinyref.algebra.bounds",
        old="(node.arg.minimum, node.arg.maximum)",
        new="(node.arg.minimum, max(node.arg.minimum, node.arg.maximum - 1))",
        resembles="a rule that holds for every value of a size but its largest",
        stages=("graph", "schedule", "kernel"),
    ),
)
