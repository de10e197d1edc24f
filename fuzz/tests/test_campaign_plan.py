"""Cases to judge and findings to examine are chosen by their numbers alone."""

from __future__ import annotations

import json
from itertools import islice

from tinyref_fuzz.campaign.database import StoredFinding
from tinyref_fuzz.campaign.plan import Frontier, Triage, gaps
from tinyref_fuzz.campaign.results import CampaignCase
from tinyref_fuzz.campaign.task import (
    Examination,
    Setup,
    examination_task,
    judging_task,
    verdict_to_examine,
)
from tinyref_fuzz.campaign.unexamined import signature
from tinyref_spec.kernel_case import Blame, KernelVerdict, Pair, Symptom

WRONG = KernelVerdict(Pair.DEVICE, Symptom.VALUE, "element 3 of 8 is 1 instead of 2", 0, 2)


def finding(number: int, name: str = "a") -> StoredFinding:
    return StoredFinding(number, name, WRONG, None)


def test_gaps_are_what_is_left_in_chunks_of_a_fixed_grid():
    assert list(gaps([], 50)) == [(0, 20), (20, 40), (40, 50)]
    assert list(gaps([(0, 20), (40, 60)], 70)) == [(20, 40), (60, 70)]
    assert list(gaps([(0, 20), (20, 50)], 70)) == [(50, 60), (60, 70)]
    assert list(gaps([(25, 30)], 45)) == [(0, 20), (20, 25), (30, 40), (40, 45)]
    assert list(gaps([(0, 20)], 20)) == []
    assert list(gaps([(0, 20)], 0)) == []
    assert list(islice(gaps([], None), 2)) == [(0, 20), (20, 40)]


def test_the_frontier_waits_for_the_first_gap():
    frontier = Frontier()
    frontier.add(20, 40)
    assert frontier.number == 0
    frontier.add(0, 20)
    assert frontier.number == 40
    frontier.add(60, 80)
    assert frontier.number == 40


def test_few_of_many_that_look_alike_are_examined_in_the_order_of_their_numbers():
    for order in (range(40), reversed(range(40))):
        triage = Triage()
        for number in order:
            triage.add(finding(number))
        triage.add(finding(7, "b"))
        first = [item.number for item in triage.due(before=10)]
        # Ranks 1 to 4 and 8 of one signature, and the only finding of the other.
        assert first == [0, 1, 2, 3, 7, 7]
        assert [item.number for item in triage.due(None)] == [15, 31]
        assert triage.due(None) == []


def test_signatures_leave_out_what_differs_from_case_to_case():
    assert signature(WRONG) == "DEVICE VALUE"
    error = KernelVerdict(Pair.DEVICE, Symptom.ERROR, "kernel 'r_4_8': slot 3 at 0x7f\nand more", 1)
    assert signature(error) == "DEVICE ERROR kernel *: slot * at *"
    for kernel in ("e", "e_24_8", "r_4_n_16"):
        theirs = KernelVerdict(Pair.DEVICE, Symptom.ERROR, f"load of {kernel}: raises OSError", 1)
        assert signature(theirs) == "DEVICE ERROR load of *: raises OSError"


def test_messages_between_processes_are_read_back_equal():
    result = CampaignCase(7, 0.5, 2, WRONG)
    assert CampaignCase.from_json(json.loads(json.dumps(result.to_json()))) == result
    examination = Examination(7, "a", Blame("device"), "differs", {"ast": []}, 8, 2)
    assert Examination.from_json(json.loads(json.dumps(examination.to_json()))) == examination
    setup = Setup("CPU", 1, timeout=5.0, examine_seconds=2.0)
    task = examination_task(setup, 7, WRONG)
    request = json.loads(json.dumps(task.to_json()))
    assert (request["items"], verdict_to_examine(request)) == ([7], WRONG)
    # An examination may exceed its own limit, and continue after the campaign's time.
    assert (task.seconds, task.is_last) == (5.0 + 2.0 + 30.0, True)
    request = json.loads(json.dumps(judging_task(3, 6).to_json()))
    assert (request["items"], verdict_to_examine(request)) == ([3, 4, 5], None)
