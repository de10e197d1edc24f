"""State machines of hypothesis, run as the tests of several rooms run them."""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def run_machine(
    machine: type[RuleBasedStateMachine], examples: int, steps: int, *phases: Phase, **others: Any
) -> None:
    """Goes through a machine so often, so many steps each time.

    phases: of hypothesis; all, where none is named. others: further settings.
    """
    chosen = settings(
        max_examples=examples, stateful_step_count=steps, phases=phases or tuple(Phase), **others
    )
    run_state_machine_as_test(machine, settings=chosen)  # type: ignore[no-untyped-call]
