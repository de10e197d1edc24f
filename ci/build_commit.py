"""Hook of hatchling that writes the commit of the source into each wheel and sdist."""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def commit_module(root: Path) -> ModuleType:
    """Import only tinyref/commit.py: a build environment lacks the dependencies of tinyref."""
    name = "_tinyref_commit"
    spec = importlib.util.spec_from_file_location(name, root / "tinyref" / "commit.py")
    assert spec is not None, "the checkout and the sdist have this file"
    assert spec.loader is not None, "it is a Python file"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]  # of any builder
    """Adds tinyref/commit.json, except to an editable install, which is the checkout itself."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file of the checkout's commit. An unpacked sdist has the file already."""
        module = commit_module(Path(self.root))
        commit = module.of_checkout(Path(self.root) / "tinyref")
        if commit is None or version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / module.FILE_NAME
        file.write_text(json.dumps(commit.to_json()) + "\n", encoding="utf-8")
        build_data["force_include"][str(file)] = f"tinyref/{module.FILE_NAME}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary file."""
        if self._folder is not None:
            self._folder.cleanup()
