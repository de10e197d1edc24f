"""The fixed-seed lane: `python -m tinyref_fuzz --device CPU --kernels 400 --seed 1`.

Exit code 0 when every kernel agrees, 1 when one does not, 2 for bad arguments.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from tinyref.device import Device
from tinyref.errors import TinyrefError
from tinyref.uops.text import to_text
from tinyref_fuzz.case import Case, Pair, Verdict
from tinyref_fuzz.generate import generate
from tinyref_fuzz.judge import judge
from tinyref_fuzz.tape import Tape

MOST_REPORTS = 5


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """The parsed command line."""
    parser = argparse.ArgumentParser(prog="python -m tinyref_fuzz", description=__doc__)
    parser.add_argument("--device", default="CPU", help="the device to judge")
    parser.add_argument("--kernels", type=int, default=400, help="how many kernels to judge")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first kernel")
    return parser.parse_args(words)


def report(device: str, seed: int, case: Case, verdict: Verdict) -> str:
    """The text that shows one failure and how to see it again."""
    text = to_text(case.ast)
    if verdict.pair is Pair.EQUIVALENT and case.equivalent is not None:
        text += "\nwhich should compute the same as\n" + to_text(case.equivalent.ast)
    where = verdict.pair.value if verdict.pair else ""
    return (
        f"seed {seed}: between {where}: {verdict.detail}\n"
        f"{text}\n"
        f"choices: {','.join(str(choice) for choice in case.choices)}\n"
        f"again: python -m tinyref_fuzz --device {device} --kernels 1 --seed {seed}"
    )


def main(words: Sequence[str] | None = None) -> int:
    """Judges the kernels of consecutive seeds and prints what differs."""
    options = arguments(words)
    failures = 0
    start = time.perf_counter()
    try:
        supported = Device[options.device].capabilities
        for seed in range(options.seed, options.seed + options.kernels):
            case = generate(Tape(seed=seed), supported)
            verdict = judge(case, options.device)
            if not verdict.agrees:
                failures += 1
                if failures <= MOST_REPORTS:
                    sys.stdout.write(report(options.device, seed, case, verdict) + "\n\n")
    except TinyrefError as error:
        sys.stderr.write(f"tinyref_fuzz: {error}\n")
        return 2
    seconds = time.perf_counter() - start
    rate = options.kernels / seconds if seconds else 0.0
    sys.stdout.write(
        f"{options.device}: {options.kernels} kernels, {failures} disagree, {rate:.1f} per second\n"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
