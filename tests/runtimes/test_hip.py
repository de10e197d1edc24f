"""HIP: texts compiled for GPUs of AMD, and its runtime over a stand-in for the library."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.runtimes.fake_hip import ILLEGAL, FakeHip, FakeHipBackend, install
from tinyref import Tensor
from tinyref.device import Device
from tinyref.dtype import DType, dtypes
from tinyref.errors import DeviceError, UserError
from tinyref.renderers.hip import HipRenderer
from tinyref.runtimes.hip_backend import Session, load_library
from tinyref.runtimes.hip_compiler import ARCHITECTURES, HipCompiler, architecture, clang, parts_of
from tinyref.runtimes.host.clang import run_tool
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import TileArg
from tinyref.uops.program import Program
from tinyref.uops.tiles import GROUPS, MatrixTile, Operand
from tinyref_spec.kernel.programs import at, item_index, program

FAKE = "tests.runtimes.fake_hip:FakeHipBackend"
# One of each family of instruction sets.
FAMILIES = ("gfx90a", "gfx942", "gfx1100", "gfx1201")


@pytest.fixture
def has_clang() -> None:
    try:
        clang()
    except DeviceError as error:
        pytest.skip(error.message)


def place(lanes: int) -> UOp:
    """Return the first element of a work-item that has `lanes` elements of its own."""
    return build.mul(item_index(64), lanes)


def stored(value: UOp) -> Program:
    """Return a program that stores a value, or each lane of it."""
    out = build.define_global(9, value.dtype.scalar, 64 * value.dtype.lanes)
    store = build.store(at(out, place(value.dtype.lanes)), value)
    return program("sample", store, group=(64, 1, 1))


def loaded(slot: int, dtype: DType, lanes: int = 1) -> UOp:
    return build.load(at(build.define_global(slot, dtype, 64 * lanes), place(lanes)), lanes=lanes)


def product(tile: MatrixTile) -> Program:
    a, b, c = (
        loaded(slot, tile.fragment(operand).scalar, tile.layout(operand).registers)
        for slot, operand in enumerate(Operand)
    )
    return stored(UOp(Ops.WMMA, c.dtype, (a, b, c), TileArg(tile)))


def assembly(name: str, program: Program) -> str:
    """Return the instructions that clang makes for an architecture."""
    target = architecture(name)
    with tempfile.TemporaryDirectory() as folder:
        source = HipRenderer(target.capabilities).render(program)
        Path(folder, "kernel.hip").write_text(source)
        run_tool([*HipCompiler(name).command, "-S", "-o", "k.s", "kernel.hip"], Path(folder))
        return Path(folder, "k.s").read_text()


# Instructions, from the guides of the instruction sets of CDNA3, RDNA3.
MNEMONICS = {
    "cdna3_m16n16k16_float16_float32": "v_mfma_f32_16x16x16_f16",
    "cdna3_m16n16k16_bfloat16_float32": "v_mfma_f32_16x16x16_bf16",
    "rdna3_m16n16k16_float16_float32": "v_wmma_f32_16x16x16_f16",
    "rdna3_m16n16k16_float16_float16": "v_wmma_f16_16x16x16_f16",
    "rdna3_m16n16k16_bfloat16_float32": "v_wmma_f32_16x16x16_bf16",
    "rdna3_m16n16k16_int8_int32": "v_wmma_i32_16x16x16_iu8",
    "rdna4_m16n16k16_float16_float32": "v_wmma_f32_16x16x16_f16",
    "rdna4_m16n16k16_float16_float16": "v_wmma_f16_16x16x16_f16",
    "rdna4_m16n16k16_bfloat16_float32": "v_wmma_f32_16x16x16_bf16",
    "rdna4_m16n16k16_int8_int32": "v_wmma_i32_16x16x16_iu8",
}


@pytest.mark.usefixtures("has_clang")
@pytest.mark.parametrize(
    ("name", "tile"),
    [(name, tile) for name in FAMILIES for tile in architecture(name).tiles],
    ids=str,
)
def test_a_tile_is_one_instruction(name: str, tile: MatrixTile) -> None:
    text = assembly(name, product(tile))
    assert re.findall(r"\tv_(?:mfma|wmma)_\w+", text) == [f"\t{MNEMONICS[tile.name]}"]


def test_every_tile_of_amd_has_a_function() -> None:
    families = ("AMD_RDNA3", "AMD_RDNA4", "AMD_CDNA3")
    declared = {tile.name for family in families for tile in GROUPS[family]}
    assert declared == set(MNEMONICS)


def test_a_tile_of_another_vendor_is_refused() -> None:
    tile = GROUPS["NVIDIA_SM75"][0]
    with pytest.raises(UserError, match=r"HIP C\+\+ has no tile nvidia_m16n8k8_float16_float32"):
        HipRenderer(architecture("gfx942").capabilities).render(product(tile))


@pytest.mark.usefixtures("has_clang")
@pytest.mark.parametrize("name", FAMILIES)
def test_sums_and_products_are_rounded_each(name: str) -> None:
    x, y, z = (loaded(slot, dtypes.float32) for slot in range(3))
    text = assembly(name, stored(build.add(build.mul(x, y), z)))
    assert "v_fma" not in text
    assert "v_mul_f32" in text


@pytest.mark.usefixtures("has_clang")
@pytest.mark.parametrize("name", ["gfx942", "gfx1100"])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float16, dtypes.bfloat16])
def test_quotients_are_exact(name: str, dtype: DType) -> None:
    """v_div_scale begins the sequence of a correctly rounded quotient; others take v_rcp alone."""
    quotient = UOp(Ops.FDIV, dtype, (loaded(0, dtype), loaded(1, dtype)))
    assert "v_div_scale_f32" in assembly(name, stored(quotient))


@pytest.mark.usefixtures("has_clang")
@pytest.mark.parametrize(
    ("dtype", "lanes"), [(dtypes.float32, 4), (dtypes.float16, 8), (dtypes.uint8, 16)]
)
def test_neighbours_are_one_access(dtype: DType, lanes: int) -> None:
    text = assembly("gfx1100", stored(loaded(0, dtype, lanes)))
    assert text.count("\tglobal_load_b128") == 1
    assert text.count("\tglobal_store_b128") == 1


@pytest.mark.usefixtures("has_clang")
def test_many_kernels_are_one_module() -> None:
    """Also of one name, and with the same helpers."""
    half = loaded(0, dtypes.bfloat16)
    sources = [
        HipRenderer(architecture("gfx942").capabilities).render(stored(build.add(half, number)))
        for number in (1, 2)
    ]
    modules = HipCompiler("gfx942").compile_many(sources)
    names = [parts_of(module) for module in modules if isinstance(module, bytes)]
    assert [suffix for suffix, _ in names] == ["_0", "_1"]
    assert all(b"k_sample_0.kd" in code and b"k_sample_1.kd" in code for _, code in names)


@pytest.mark.usefixtures("has_clang")
def test_a_kernel_that_does_not_compile_is_told_from_others() -> None:
    good = HipRenderer().render(stored(build.const(dtypes.float32, 1.0)))
    bad = good.replace("1.0f", "one")
    right, wrong = HipCompiler("gfx1100").compile_many([good, bad])
    assert isinstance(right, bytes)
    assert isinstance(wrong, DeviceError)
    assert "use of undeclared identifier 'one'" in wrong.message
    assert wrong.source == bad
    with pytest.raises(DeviceError, match="undeclared identifier"):
        HipCompiler("gfx1100").compile(bad)


@pytest.mark.usefixtures("has_clang")
def test_a_target_that_clang_lacks_is_said() -> None:
    good = HipRenderer().render(stored(build.const(dtypes.float32, 1.0)))
    with pytest.raises(DeviceError, match="gfx9999"):
        HipCompiler("gfx9999").compile(good)


def test_a_missing_compiler_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIP_CLANG_PATH", "/nowhere")
    with pytest.raises(DeviceError, match=r"no compiler for AMD GPUs: /nowhere/clang does not"):
        clang()
    monkeypatch.delenv("HIP_CLANG_PATH")
    monkeypatch.setenv("ROCM_PATH", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(
        DeviceError, match=r"no clang is installed: apt-get install clang-19 lld-19"
    ):
        clang()


def test_the_newest_clang_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose among those that compile for AMD and have a linker."""
    script = "#!/bin/sh\ncase $1 in --print-targets) echo {};; *) echo {};; esac\n"
    for number, target, linker in (
        (9, "amdgcn", "/bin/sh"),
        (15, "amdgcn", "/bin/sh"),
        (20, "x86", "/bin/sh"),
        (21, "amdgcn", "lld-that-is-not-there"),
    ):
        path = tmp_path / f"clang-{number}"
        path.write_text(script.format(target, linker))
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ROCM_PATH", "/nowhere")
    monkeypatch.delenv("HIP_CLANG_PATH", raising=False)
    assert clang() == str(tmp_path / "clang-15")


def test_waves_and_limits() -> None:
    """LLVM, "User Guide for AMDGPU Backend": wave32 is what gfx10 and later default to."""
    waves = {name: item.wave for name, item in ARCHITECTURES.items()}
    assert waves == {
        **{"gfx90a": 64, "gfx942": 64, "gfx1100": 32, "gfx1101": 32, "gfx1102": 32},
        **{"gfx1200": 32, "gfx1201": 32},
    }
    for item in ARCHITECTURES.values():
        assert item.capabilities.shared_bytes == 65536
        assert {tile.threads for tile in item.tiles} <= {item.wave}
    assert architecture("gfx942:sramecc+:xnack-").name == "gfx942"
    with pytest.raises(UserError, match="unknown architecture gfx803: accepted are gfx90a, gfx942"):
        architecture("gfx803")


def test_without_the_library_it_says_what_is_missing() -> None:
    available = Device.availability("HIP")
    if available.works:
        pytest.skip("a GPU of AMD is here")
    with pytest.raises(DeviceError) as missing:
        load_library()
    assert available.reason == missing.value.message
    assert "apt-get install libamdhip64-5" in available.reason


# --- the runtime, over a stand-in ---


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeHip:
    return install(monkeypatch)


@pytest.mark.usefixtures("c_compiler")
def test_tensors_of_two_devices(fake: FakeHip, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run kernels with groups and variables; copy in, out, and between the devices."""
    monkeypatch.setattr(Device, "_open", {})
    values = np.arange(48, dtype=np.float32).reshape(6, 8)
    here = Tensor(values, device=FAKE)
    total = (here * 2 + 1).sum(axis=1)
    np.testing.assert_array_equal(total.numpy(), (values * 2 + 1).sum(axis=1))
    there = total.to(f"{FAKE}:1") / 3
    np.testing.assert_array_equal(there.numpy(), (values * 2 + 1).sum(axis=1) / np.float32(3))
    assert fake.calls.count("hipMemcpyPeerAsync") == 1


def test_memory_is_given_back(fake: FakeHip) -> None:
    backend = FakeHipBackend(0)
    memory = backend.allocator.allocate(64)
    backend.allocator.free(memory)
    assert len(fake.memory) == 1
    backend.allocator.give_back()
    assert not fake.memory


def test_errors_are_sentences(fake: FakeHip) -> None:
    backend = FakeHipBackend(0)
    with pytest.raises(DeviceError, match=r"hipMalloc: hipErrorOutOfMemory: out of memory: the de"):
        backend.allocator.allocate(2**40)
    fake.fails["hipGetDeviceCount"] = 1
    with pytest.raises(DeviceError, match=r"the runtime finds no device: hipErrorInvalidValue: in"):
        FakeHipBackend(0)
    with pytest.raises(DeviceError, match="there are 2 such devices"):
        FakeHipBackend(2)
    fake.devices = 0
    assert FakeHipBackend.availability().reason == "the HIP runtime finds no device"
    fake.devices = 2
    assert FakeHipBackend.availability().reason == "Fake 0, Fake 1"
    fake.architecture = "gfx803"
    with pytest.raises(DeviceError, match="unknown architecture gfx803: accepted are gfx"):
        FakeHipBackend(0).capabilities  # noqa: B018
    fake.architecture = ""
    with pytest.raises(DeviceError, match="its properties name no architecture"):
        FakeHipBackend(0)


def test_what_a_fault_leaves_is_lost(fake: FakeHip) -> None:
    """Refuse all calls of the process after an illegal access; other errors pass."""
    backend = FakeHipBackend(0)
    memory = backend.allocator.allocate(8)
    fake.fails["hipStreamSynchronize"] = 1
    with pytest.raises(DeviceError, match="hipStreamSynchronize: hipErrorInvalidValue"):
        backend.synchronize()
    backend.synchronize()
    fake.fails["hipStreamSynchronize"] = ILLEGAL
    with pytest.raises(DeviceError, match="hipErrorIllegalAddress: an illegal memory access: ev"):
        backend.synchronize()
    with pytest.raises(DeviceError, match="is lost since hipStreamSynchronize returned hipErrorIl"):
        backend.allocator.copy_in(memory, memoryview(bytes(8)))


def test_the_session_belongs_to_the_device(fake: FakeHip) -> None:
    session = Session("HIP:1", 1, fake)
    session.finish()
    assert fake.current == 1
    backend = FakeHipBackend(1)
    assert backend.architecture == "gfx942:sramecc+:xnack-"
    assert backend.capabilities == architecture("gfx942").capabilities
    assert backend.versions()["runtime"] == "60342131"
