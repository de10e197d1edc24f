"""The hook of hatchling by which a wheel and an sdist know the commit that they are built of."""

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
    """tinyref/commit.py alone: where archives are built, nothing that tinyref needs is there."""
    name = "_tinyref_commit"
    spec = importlib.util.spec_from_file_location(name, root / "tinyref" / "commit.py")
    assert spec is not None, "the file lies in the checkout and in the sdist"
    assert spec.loader is not None, "it is a file of Python"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]  # of any builder
    """Adds tinyref/commit.json, but to an editable install: that is the checkout itself."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """In an unpacked sdist there is no commit to ask for: the file there goes on."""
        module = commit_module(Path(self.root))
        found = module.of_checkout(Path(self.root) / "tinyref")
        if found is None or version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / module.FILE_NAME
        file.write_text(json.dumps(found.to_json()) + "\n", encoding="utf-8")
        build_data["force_include"][str(file)] = f"tinyref/{module.FILE_NAME}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The archive has it."""
        if self._folder is not None:
            self._folder.cleanup()
