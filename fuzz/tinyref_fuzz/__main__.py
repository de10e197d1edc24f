"""Judge the same kernels every time: `python -m tinyref_fuzz --device CPU --kernels 400`.

All kernels run in this process, so that the result depends only on the code. They are the kernels
of a campaign with the same seed and policy. The exit code is 0 if every kernel agrees, 1 if one
does not, and 2 for bad arguments.
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
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m tinyref_fuzz", description=__doc__)
    parser.add_argument("--device", default="CPU", help="device to judge (default: CPU)")
    parser.add_argument("--kernels", type=int, default=400, help="number of kernels (default: 400)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the kernels (default: 1)")
    parser.add_argument("--start", type=int, default=0, help="number of the first kernel")
    parser.add_argument(
        "--policy",
        default=DEFAULT_POLICY,
        help=f"weights of the kernels (default: {DEFAULT_POLICY})",
    )
    return parser.parse_args(words)


def report(
    options: argparse.Namespace, number: int, case: KernelCase, verdict: KernelVerdict
) -> str:
    """Describe a finding, and print the command that repeats it."""
    lines = terminal_lines(case, verdict)
    words = ["python", "-m", "tinyref_fuzz", "--device", options.device, "--kernels", "1"]
    words += ["--seed", str(options.seed), "--start", str(number), "--policy", options.policy]
    again = reproduce.command(words, device_settings(options.device))
    return "\n".join([f"kernel {number}:", *(f"  {line}" for line in lines), f"  again   {again}"])


def main(words: Sequence[str] | None = None) -> int:
    """Judge consecutive kernels of a seed, and print those that do not agree."""
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
