"""Test that garbage collection is delayed while a kernel is made, and only then."""

import gc

import pytest

from tinyref.algebra.rewrite import listening
from tinyref.codegen.compile import compile_kernel
from tinyref.device import Device
from tinyref.garbage import collection_paused
from tinyref_spec.kernels.corpus import corpus_kernels


@pytest.fixture
def collecting():
    """Turn the collector on for the test, and restore its state."""
    was_enabled = gc.isenabled()
    gc.enable()
    yield
    if not was_enabled:
        gc.disable()


@pytest.mark.usefixtures("collecting")
def test_it_is_on_again_afterwards():
    with collection_paused():
        assert not gc.isenabled()
        with collection_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), collection_paused():
        raise KeyError
    assert gc.isenabled()


@pytest.mark.usefixtures("collecting")
def test_a_user_who_has_turned_it_off_keeps_it_off():
    gc.disable()
    with collection_paused():
        pass
    assert not gc.isenabled()
    gc.enable()


@pytest.mark.usefixtures("collecting")
def test_no_stage_of_a_compile_is_interrupted():
    states = []
    kernel = next(iter(corpus_kernels().values()))
    with listening(stages=lambda stage, before, after: states.append(gc.isenabled())):
        compile_kernel(kernel.ast, Device["CPU"].capabilities)
    assert set(states) == {False}
    assert gc.isenabled()
