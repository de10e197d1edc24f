"""A witness of a mutant: a small case that fails with it and passes without.

    python -m tinyref_fuzz.mutants.witness NAME [--seed N] [--seconds N] [--folder FOLDER]

Searches one, reduces it, and keeps it in a file of its own, from which it can be judged again
whatever the generator draws by then. Exit code 1 where none is found.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tinyref_fuzz.mutants.catalogue import MUTANTS
from tinyref_fuzz.mutants.mutant import Mutant, switch_on

if TYPE_CHECKING:
    from tinyref_fuzz.case import Case, Verdict

FOLDER = Path(__file__).parent / "witnesses"


def file_of(name: str, folder: Path = FOLDER) -> Path:
    """Where the witness of a mutant is kept."""
    return folder / f"{name}.json"


def fails(file: Path, device: str) -> bool:
    """Whether the case in `file` fails on `device`, with the compiler of this process."""
    from tinyref_fuzz.judge import judge
    from tinyref_fuzz.store import load_case

    return not judge(load_case(file), device, thorough=True).agrees


def search(mutant: Mutant, seed: int, seconds: float, folder: Path = FOLDER) -> Path | None:
    """Switches `mutant` on in this process, and keeps the first case that it fails, reduced."""
    switch_on(mutant)
    from tinyref_fuzz.reduce import reduced
    from tinyref_fuzz.store import save_case

    found = _first_failure(mutant.device, seed, seconds)
    if found is None:
        return None
    reduction = reduced(*found, mutant.device, 60.0)
    folder.mkdir(exist_ok=True)
    file = file_of(mutant.name, folder)
    save_case(
        file,
        reduction.case,
        note=f"shows the mutant {mutant.name}",
        verdict=reduction.verdict,
        device=mutant.device,
    )
    return file


def _first_failure(device: str, seed: int, seconds: float) -> tuple[Case, Verdict] | None:
    from tinyref_fuzz.campaign.cases import tape_seed
    from tinyref_fuzz.generate import generate
    from tinyref_fuzz.judge import Judge
    from tinyref_fuzz.tape import Tape

    judge = Judge(device)
    until = time.perf_counter() + seconds
    for number in itertools.count():
        if time.perf_counter() > until:
            return None
        case = generate(Tape(seed=tape_seed(seed, number)), judge.capabilities)
        verdict = judge.verdict(case)
        if not verdict.agrees:
            return case, verdict
    return None


def main(words: Sequence[str] | None = None) -> int:
    """Searches the witness of one mutant; 0 where there is one."""
    parser = argparse.ArgumentParser(prog="python -m tinyref_fuzz.mutants.witness")
    parser.add_argument("name", choices=sorted(MUTANTS), metavar="NAME", help="a mutant")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the cases")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to search")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where to keep it")
    options = parser.parse_args(words)
    file = search(MUTANTS[options.name], options.seed, options.seconds, options.folder)
    sys.stdout.write(f"{options.name}: {file or 'no case fails'}\n")
    return 0 if file else 1


if __name__ == "__main__":
    sys.exit(main())
