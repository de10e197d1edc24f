"""Guidance: what was seldom reached is drawn more often.

What is counted is which rewriting rules fired and which kinds of optimisation met in one list. Both
become factors for the weights of a policy; every choice stays possible, and a tape replays
without them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tinyref.algebra.simplify import ALL_RULES
from tinyref.optimise.opt import OptOp

# No factor is further from 1 than this, so that no kind of kernel dies out.
STRONGEST = 4.0

# Rules on what is only built by hand: simplification comes before lanes and gates are there, and
# lowering itself leaves out gates that are constant. Their tests are in tests/uops.
NOT_IN_KERNELS = frozenset(
    {
        *("gep-all", "gep-const", "gep-vectorize"),
        *("load-gate-true", "load-gate-false", "store-gate-true"),
        *("shift-left-index", "shift-right-index", "mask-index", "int-mulacc"),
        # The range of the result is one number, and the rule for that comes first.
        *("mod-one", "int-mul-zero"),
    }
)

# At most one of each is in a list of optimisations.
_ONCE = frozenset({OptOp.TC, OptOp.NOLOCALS})


def guidance(rules: Mapping[str, int], pairs: Mapping[str, int]) -> dict[str, dict[str, float]]:
    """Factors by name for a policy: of rules to instantiate, and of optimisations to apply.

    rules: how often each rule fired. pairs: how often two kinds of optimisation, in this order,
    were in one list, as `UPCAST LOCAL`. Kinds that were in no pair keep their weights: the device
    refuses them.
    """
    by_pair = factors({pair: pairs.get(pair, 0) for pair in possible_pairs(_kinds_of_pairs(pairs))})
    by_op = {
        op.name: _mean(by_pair[pair] for pair in by_pair if op.name in pair.split()) for op in OptOp
    }
    return {"opts": by_op}


def factors(counts: Mapping[str, int]) -> dict[str, float]:
    """A factor for each name: above 1 for what was reached less often than the median.

    The square root of the ratio, so that guidance converges instead of swinging.
    """
    ordered = sorted(counts.values())
    median = ordered[len(ordered) // 2] if ordered else 0
    return {
        name: round(min(STRONGEST, max(1 / STRONGEST, math.sqrt((1 + median) / (1 + count)))), 3)
        for name, count in counts.items()
    }


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return round(sum(found) / len(found), 3) if found else 1.0


def _kinds_of_pairs(pairs: Mapping[str, int]) -> tuple[OptOp, ...]:
    """The kinds of optimisation that were in some pair, in their order."""
    names = {name for pair, count in pairs.items() if count for name in pair.split()}
    return tuple(op for op in OptOp if op.name in names)


def possible_pairs(ops: Iterable[OptOp] = OptOp) -> tuple[str, ...]:
    """Every two kinds of optimisation, out of `ops`, that a list may have in this order."""
    kinds = tuple(ops)
    return tuple(
        f"{first.name} {second.name}"
        for first in kinds
        for second in kinds
        # A tile comes first or not at all; without groups there is nothing to take them from.
        if second is not OptOp.TC and not (first is second and first in _ONCE)
    )


@dataclass(frozen=True)
class Unreached:
    """What a campaign never reached: rules with their equations, and pairs of optimisations.

    alone: the kinds of optimisation that were in no pair at all; `pairs` are of the others.
    """

    rules: tuple[tuple[str, str], ...]
    by_hand: tuple[str, ...]
    pairs: tuple[str, ...]
    alone: tuple[str, ...]
    fired: int
    met: int

    def text(self) -> str:
        """A page in Markdown."""
        lines = [
            "# What was never reached",
            "",
            f"{self.fired} of {len(ALL_RULES.rules)} rewriting rules fired, and {self.met} of "
            f"{self.met + len(self.pairs)} ordered pairs of optimisations were in one list.",
            "",
            "## Rules",
            "",
            *([f"- `{name}`: {equation}" for name, equation in self.rules] or ["None is left."]),
            "",
            "These only fire on graphs that are built by hand, and have tests of their own: "
            + ", ".join(f"`{name}`" for name in self.by_hand)
            + ".",
            "",
            "## Pairs of optimisations",
            "",
            *([f"- {pair}" for pair in self.pairs] or ["None is left."]),
            "",
            "Never in a list with another: " + (", ".join(self.alone) or "none") + ". What the "
            "device refuses is among them.",
        ]
        return "\n".join(lines) + "\n"


def missing_coverage(rules: Mapping[str, int], pairs: Mapping[str, int]) -> Unreached:
    """What is missing in these counts, which are as for `guidance`."""
    missing = [rule for rule in ALL_RULES.rules if not rules.get(rule.name)]
    met = _kinds_of_pairs(pairs)
    possible = possible_pairs(met)
    return Unreached(
        rules=tuple(
            (rule.name, rule.equation.split("\n")[0])
            for rule in missing
            if rule.name not in NOT_IN_KERNELS
        ),
        by_hand=tuple(rule.name for rule in missing if rule.name in NOT_IN_KERNELS),
        pairs=tuple(pair for pair in possible if not pairs.get(pair)),
        alone=tuple(op.name for op in OptOp if op not in met),
        fired=len(ALL_RULES.rules) - len(missing),
        met=sum(1 for pair in possible if pairs.get(pair)),
    )
