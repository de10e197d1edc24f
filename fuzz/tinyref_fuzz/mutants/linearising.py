"""Mutants of accumulators and of the order of a program: loops, scopes, memory."""

from __future__ import annotations

import functools

from tinyref_fuzz.mutants.mutant import Mutant

_ACCUMULATE = "tinyref.codegen.accumulate"
_LINEARISE = "tinyref.codegen.linearise.linearise"
_SCOPES = "tinyref.codegen.linearise.scopes"
_NEEDS = "tinyref.codegen.linearise.needs"

_accumulator = functools.partial(Mutant, module=_ACCUMULATE)
ACCUMULATORS = (
    _accumulator(
        name="integer-max-starts-too-high",
        kind="wrong reduce identity",
        old="    start = build.const(node.dtype, reduce_identity(op, node.dtype))",
        new="    start = build.const(node.dtype, -1 if op is Ops.MAX and node.dtype.is_int "
        "and not node.dtype.is_unsigned else reduce_identity(op, node.dtype))",
        resembles="the least integer was taken from the wrong end of a table",
        stages=("accumulate",),
    ),
    _accumulator(
        name="accumulator-of-two-reduces",
        kind="accumulator shared by two reduces",
        old='        return _accumulator(f"acc{next(numbers)}", node, node.arg.op, src)',
        new='        return _accumulator("acc0", node, node.arg.op, src)',
        resembles="two reduces of one type over the same loops went into one accumulator",
        stages=("accumulate", "linearise"),
    ),
    _accumulator(
        name="accumulator-not-reset",
        kind="accumulator not reset",
        module=_SCOPES,
        old="            found[item] = self.ranges[scope.bit_length() - 1] if scope else BODY",
        new="            found[item] = self.ranges[scope.bit_length() - 1] "
        "if scope and item in self.bit else BODY",
        resembles="a sum in a loop was started once before it, not in every iteration",
        stages=("linearise", "optimise"),
    ),
)

_loop = functools.partial(Mutant, stages=("linearise",))
LOOPS = (
    _loop(
        name="loop-ends-before-its-last-child",
        kind="loop end before its last child",
        module=_LINEARISE,
        old="            stack.append((item, True))\n"
        "            stack += [(member, False) for member in reversed(orders[item])]",
        new="            last = next((m for m in orders[item][::-1] if m < count), -1)\n"
        "            inside = [m for m in orders[item] if m != last]\n"
        "            stack += [(last, False)] if last >= 0 and last not in orders else []\n"
        "            stack.append((item, True))\n"
        "            inside += [last] if last in orders else []\n"
        "            stack += [(member, False) for member in reversed(inside)]",
        resembles="a loop was closed before the last of what stands in it",
    ),
    _loop(
        name="merged-reduces-of-other-depth",
        kind="merged ranges across scopes",
        module="tinyref.optimise.normal_form",
        old="        key = (context, arg.axes, reduced_sizes(node), _depth(node))",
        new="        key = (context, arg.axes, reduced_sizes(node), 0)",
        resembles="a sum and the maximum that it needs shared one loop, as in softmax",
        stages=("normal", "linearise", "lower"),
    ),
    _loop(
        name="loop-of-updates-dropped",
        kind="loop dropped",
        module=_SCOPES,
        old="            if op in _DOES:\n",
        new="            if op in _DOES and op is not _UPDATE:\n",
        resembles="a loop that only updates an accumulator was taken for one that does nothing",
    ),
)

_memory = functools.partial(Mutant, kind="a load moved over a store that it depends on")
MEMORY = (
    _memory(
        name="load-after-store",
        module=_NEEDS,
        old="        if 0 < len(stores) < len(found):",
        new="        if 0 < len(stores) < len(found) - len(found):",
        resembles="an output that is also read was overwritten before it was read",
        stages=("linearise",),
    ),
    _memory(
        name="waits-forgotten",
        module="tinyref.codegen.linearise.graph",
        old="                carried[node] = _union([waits, "
        "(self._wait(node.src[1:], items[1:]),)])",
        new="                carried[node] = _union([waits, ()])",
        resembles="what an access must come after was lost when it was scheduled",
        stages=("linearise", "optimise"),
        is_race=True,
    ),
)

MUTANTS = (*ACCUMULATORS, *LOOPS, *MEMORY)
