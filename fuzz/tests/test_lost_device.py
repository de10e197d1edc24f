"""A worker whose device is lost reports the case and ends, so that another one opens it again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tinyref_fuzz.campaign import worker as workers
from tinyref_fuzz.campaign.task import Setup, judging_task


class LeftError(Exception):
    """Stand-in for the end of the process."""


@pytest.mark.parametrize(
    ("verdicts", "problem", "judged"),
    [
        ([None, None, None], "device lost", 3),
        (["wrong", None, "wrong"], "", 3),
        ([None, "wrong", None], "device lost", 2),
    ],
    ids=["all_agree", "wrong_and_alive", "lost"],
)
def test_a_worker_ends_after_a_finding_that_lost_its_device(
    monkeypatch: pytest.MonkeyPatch, verdicts: list[str | None], problem: str, judged: int
) -> None:
    def judge_case(number: int) -> Any:
        return SimpleNamespace(verdict=verdicts[number], to_json=lambda: {"number": number})

    def leave() -> None:
        raise LeftError

    sent: list[Any] = []
    monkeypatch.setattr(workers, "leave_device", leave)
    worker = workers.CampaignWorker(Setup("PYTHON", 1, code="any"), sent.append)
    # The results are invented.
    worker.subject = SimpleNamespace(judge_case=judge_case)  # type: ignore[assignment]
    worker.health = SimpleNamespace(problem_since=lambda: problem)  # type: ignore[assignment]
    message = {"task": judging_task(0, 3).to_json()}
    if judged == 3:
        assert worker.work(message) == {"done": True}
    else:
        with pytest.raises(LeftError):
            worker.work(message)
    ends = [message["end"] for message in sent if "end" in message]
    assert ends == list(range(judged))
