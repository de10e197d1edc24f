"""A cache of compiled kernels of its own."""

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads what an earlier version of the renderers left in the user's cache."""
    folder = tmp_path_factory.getbasetemp() / "compile-cache"
    monkeypatch.setenv("TINYREF_CACHE_DIR", str(folder))
