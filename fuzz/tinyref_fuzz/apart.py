"""The verdict of a process of its own, on a case that may crash it or never end.

    python -m tinyref_fuzz.apart

What `tinyref fuzz replay` does with a case on file; campaigns have workers, which judge many.
"""

from __future__ import annotations

import os
import signal

from tinyref import processes
from tinyref.device import Device
from tinyref.errors import UserError
from tinyref.processes import Line, WorkerProcess, death_in_words, usable_memory
from tinyref.runtimes.python import PythonBackend
from tinyref_fuzz.campaign.cases import (
    error_text,
    judge_of,
    verdict_from_json,
    verdict_of,
    verdict_to_json,
)
from tinyref_fuzz.campaign.local import LAST_WORDS_SECONDS, OPENING_SECONDS, pair_of_death
from tinyref_fuzz.case import Case, Symptom, Verdict
from tinyref_fuzz.judge import judge
from tinyref_fuzz.store import case_from_json, case_to_json

TICK_SECONDS = 0.2
# Here there is nothing to compare, and to try more would end more processes.
DEATHS = frozenset({Symptom.CRASH, Symptom.HANG, Symptom.MEMORY})


def judged_safely(case: Case, device: str, seconds: float) -> Verdict:
    """As `judged_apart`, but here where the device has no way to end the process."""
    if Device.backend_class(device) is PythonBackend:
        return judge(case, device, thorough=True)
    return judged_apart(case, device, seconds)


def judged_apart(case: Case, device: str, seconds: float) -> Verdict:
    """The verdict with every check.

    That the process died is one too, that it took over `seconds`, or most of the machine's memory.
    Raises `UserError` where the device does not open.
    """
    config = {"case": case_to_json(case), "device": device}
    pool = processes.Pool("tinyref_fuzz.apart", config, WorkerProcess)
    try:
        return _Watch(pool, device, seconds).verdict()
    finally:
        pool.close()


class _Watch:
    """One process of a pool, until it has said its verdict or ended."""

    def __init__(self, pool: processes.Pool[WorkerProcess], device: str, seconds: float) -> None:
        self.pool = pool
        self.device = device
        self.seconds = seconds
        self.worker = pool.start()
        self.is_open = False

    def verdict(self) -> Verdict:
        while True:
            for worker, message in self.pool.said(TICK_SECONDS):
                if message is None:
                    return self._death()
                if "refused" in message:
                    raise self._refusal(message["refused"])
                if "verdict" in message:
                    return verdict_from_json(message["verdict"])
                self.is_open = True
                worker.heard()
            self._check_limits()

    def _check_limits(self) -> None:
        self.worker.trim_log()
        if self.worker.memory_bytes() > usable_memory():
            self.worker.kill("memory")
        limit = self.seconds if self.is_open else OPENING_SECONDS
        silent = self.worker.silence()
        if silent > limit + LAST_WORDS_SECONDS:
            self.worker.kill("no end")
        elif silent > limit and not self.worker.killed_for:
            # With this signal the log gets the stack, which tells where it hangs.
            self.worker.kill("no end", signal.SIGABRT)

    def _death(self) -> Verdict:
        tail = self.worker.log_tail()
        words = death_in_words(self.pool.remove(self.worker))
        symptom = Symptom.CRASH
        if self.worker.killed_for == "memory":
            symptom, words = Symptom.MEMORY, f"it held over {usable_memory() >> 20} MiB"
        elif self.worker.killed_for:
            limit = self.seconds if self.is_open else OPENING_SECONDS
            symptom, words = Symptom.HANG, f"no end within {limit:g} s"
        if not self.is_open:
            raise self._refusal(words)
        return Verdict(pair_of_death(tail), symptom, f"{words}\n{tail}".strip())

    def _refusal(self, words: str) -> UserError:
        return UserError(f"device: {self.device} does not open: {words}")


def main() -> None:
    """Hears a case and a device, and says the verdict."""
    line = Line()
    message = line.hear()
    try:
        opened = judge_of(message["device"])
    except Exception as error:  # anything at all: the parent is to say what it was
        line.say({"refused": error_text(error)})
    else:
        case = case_from_json(message["case"])
        line.say({"opened": True})
        line.say({"verdict": verdict_to_json(verdict_of(opened, case, thorough=True))})
    # Threads of a device must not keep the process.
    os._exit(0)


if __name__ == "__main__":
    main()
