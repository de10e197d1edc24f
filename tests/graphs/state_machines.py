"""Run state machines of hypothesis, for the tests of several folders."""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def run_machine(
    machine: type[RuleBasedStateMachine], examples: int, steps: int, *phases: Phase, **others: Any
) -> None:
    """Run `examples` walks of `steps` steps through a machine.

    phases: Phases of hypothesis (default: all). others: Further settings.
    """
    chosen = settings(
        max_examples=examples, stateful_step_count=steps, phases=phases or tuple(Phase), **others
    )
    run_state_machine_as_test(machine, settings=chosen)  # type: ignore[no-untyped-call]
