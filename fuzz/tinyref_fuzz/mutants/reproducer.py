"""A reproducer of a mutant: a small case that fails with it and passes without.

    python -m tinyref_fuzz.mutants.reproducer NAME [--seed N] [--seconds N] [--folder FOLDER]

Searches one, reduces it, and keeps it in a file of its own, from which it can be judged again
whatever the generator draws by then. Exit code 1 where none is found, 2 where it cannot be kept.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tinyref.errors import UserError
from tinyref.folders import prepare_folder
from tinyref_fuzz.mutants.catalogue import MUTANTS
from tinyref_fuzz.mutants.mutant import Mutant, switch_on

if TYPE_CHECKING:
    from tinyref_spec.kernel_case import Case, Verdict

FOLDER = Path(__file__).parent / "reproducers"


def file_of(name: str, folder: Path = FOLDER) -> Path:
    """Where the reproducer of a mutant is kept."""
    return folder / f"{name}.json"


def fails(file: Path, device: str) -> bool:
    """Whether the case in `file` fails on `device`, with the compiler of this process."""
    from tinyref_fuzz.judge.judge import judge
    from tinyref_spec.kernel_case.files import load_record

    return not judge(load_record(file).case, device, thorough=True).agrees


def search(mutant: Mutant, seed: int, seconds: float, folder: Path = FOLDER) -> Path | None:
    """Switches `mutant` on in this process, and keeps the first case that it fails, reduced.

    Raises `UserError` where nothing can be kept in `folder`.
    """
    prepare_folder(folder, "reproducer")
    switch_on(mutant)
    from tinyref_fuzz.reduce import reduce_case
    from tinyref_spec.kernel_case import CaseRecord
    from tinyref_spec.kernel_case.files import save_record

    found = first_failure(mutant.device, seed, seconds)
    if found is None:
        return None
    reduction = reduce_case(*found, mutant.device, 60.0)
    record = CaseRecord(
        reduction.case,
        note=f"shows the mutant {mutant.name}",
        verdict=reduction.verdict,
        device=mutant.device,
    )
    return save_record(file_of(mutant.name, folder), record)


def first_failure(device: str, seed: int, seconds: float) -> tuple[Case, Verdict] | None:
    """The first case of `seed` that fails on `device`; None where none does in `seconds`."""
    from tinyref_fuzz.campaign.cases import judge_cases

    until = time.perf_counter() + seconds
    for _, case, verdict, _ in judge_cases(device, seed):
        if not verdict.agrees:
            return case, verdict
        if time.perf_counter() > until:
            break
    return None


def main(words: Sequence[str] | None = None) -> int:
    """Searches the reproducer of one mutant, and gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tinyref_fuzz.mutants.reproducer")
    parser.add_argument("name", choices=sorted(MUTANTS), metavar="NAME", help="a mutant")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the cases")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to search")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where to keep it")
    options = parser.parse_args(words)
    try:
        file = search(MUTANTS[options.name], options.seed, options.seconds, options.folder)
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{options.name}: {file or 'no case fails'}\n")
    return 0 if file else 1


if __name__ == "__main__":
    sys.exit(main())
