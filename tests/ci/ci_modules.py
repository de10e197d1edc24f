"""Import the scripts of CI, so that tests can call their functions."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def ci_module(path: str) -> ModuleType:
    """Return the file at a path from the root as a module; restore the environment."""
    spec = importlib.util.spec_from_file_location(f"ci_{Path(path).stem}", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    environment = dict(os.environ)
    try:
        spec.loader.exec_module(module)
    finally:
        os.environ.clear()
        os.environ.update(environment)
    return module


def git(folder: Path, *words: str) -> str:
    """Return what git prints in a folder, as an author who signs nothing."""
    names = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *names, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
