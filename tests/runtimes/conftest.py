"""A cache of compiled kernels of its own."""

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a new cache, without kernels of earlier renderers."""
    folder = tmp_path_factory.getbasetemp() / "compile-cache"
    monkeypatch.setenv("TINYREF_CACHE_DIR", str(folder))
