"""The fixed-seed lane: `python -m tinyref_fuzz --device CPU --kernels 400 --seed 1`.

The same kernels every time, in this process, so that it passes or fails for the code alone. They
are those of a campaign with the same seed and policy. Exit code 0 when every kernel agrees, 1 when
one does not, 2 for bad arguments.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import islice

from tinyref import reproduce
from tinyref.errors import TinyrefError, UserError
from tinyref.runtimes.identity import device_settings
from tinyref_fuzz.campaign.cases import judge_cases
from tinyref_fuzz.campaign.results import DEFAULT_POLICY
from tinyref_fuzz.findings.reproducer import terminal_lines
from tinyref_spec.kernel_case import KernelCase, KernelVerdict

MAX_REPORTS = 5


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """The parsed command line."""
    parser = argparse.ArgumentParser(prog="python -m tinyref_fuzz", description=__doc__)
    parser.add_argument("--device", default="CPU", help="the device to judge: CPU if not given")
    parser.add_argument("--kernels", type=int, default=400, help="how many kernels to judge")
    parser.add_argument("--seed", type=int, default=1, help="which kernels: 1 if not given")
    parser.add_argument("--start", type=int, default=0, help="the number of the first kernel")
    parser.add_argument(
        "--policy",
        default=DEFAULT_POLICY,
        help=f"what they are like: {DEFAULT_POLICY} if not given",
    )
    return parser.parse_args(words)


def report(
    options: argparse.Namespace, number: int, case: KernelCase, verdict: KernelVerdict
) -> str:
    """Return a finding, and how to see it again."""
    lines = terminal_lines(case, verdict)
    words = ["python", "-m", "tinyref_fuzz", "--device", options.device, "--kernels", "1"]
    words += ["--seed", str(options.seed), "--start", str(number), "--policy", options.policy]
    again = reproduce.command(words, device_settings(options.device))
    return "\n".join([f"kernel {number}:", *(f"  {line}" for line in lines), f"  again   {again}"])


def main(words: Sequence[str] | None = None) -> int:
    """Judges consecutive kernels of a seed and prints what does not agree."""
    options = arguments(words)
    failures = 0
    start = time.perf_counter()
    try:
        if options.kernels < 1:
            raise UserError(f"kernels: got {options.kernels}, accepted is 1 or more")
        cases = judge_cases(options.device, options.seed, options.policy, options.start)
        for number, case, verdict, _ in islice(cases, options.kernels):
            if verdict.agrees:
                continue
            failures += 1
            if failures <= MAX_REPORTS:
                sys.stdout.write(report(options, number, case, verdict) + "\n\n")
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
