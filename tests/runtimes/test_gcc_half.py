"""gcc's instructions for float16, which its assembler refuses (gcc-2 of docs/found.md)."""

import platform
import shutil
from pathlib import Path

import pytest

from tinyref.errors import DeviceError
from tinyref.runtimes.host.clang import run_tool, toolchain

# What a gradient of relu is, in lanes of float16.
SOURCE = """
typedef unsigned char bytes __attribute__((vector_size(4)));
typedef _Float16 halves __attribute__((vector_size(8)));
void chosen(_Float16 *out, _Float16 *data, _Float16 *given) {
  for (int i = 0; i < 9; i++) {
    halves x, y;
    __builtin_memcpy(&x, &data[i * 4], sizeof x);
    __builtin_memcpy(&y, &given[i * 4], sizeof y);
    bytes gates = {0 < x[0], 0 < x[1], 0 < x[2], 0 < x[3]};
    bytes more = {6 < x[0], 6 < x[1], 6 < x[2], 6 < x[3]};
    halves some = {more[0] ? (_Float16)0 : y[0], more[1] ? (_Float16)0 : y[1],
                   more[2] ? (_Float16)0 : y[2], more[3] ? (_Float16)0 : y[3]};
    halves all = {gates[0] ? some[0] : (_Float16)0, gates[1] ? some[1] : (_Float16)0,
                  gates[2] ? some[2] : (_Float16)0, gates[3] ? some[3] : (_Float16)0};
    __builtin_memcpy(&out[i * 4], &all, sizeof all);
  }
}
"""
PROCESSOR = "-march=sapphirerapids"


def compiled(command: list[str], folder: Path) -> None:
    (folder / "chosen.c").write_text(SOURCE)
    run_tool([*command, "-c", "-o", "chosen.o", "chosen.c"], folder, SOURCE)


@pytest.mark.skipif(
    shutil.which("gcc") is None or platform.machine() not in ("x86_64", "AMD64"),
    reason="needs gcc for x86-64",
)
def test_chosen_lanes_of_float16_compile_for_a_processor_that_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINYREF_CC", "gcc")
    command = [*toolchain().command, PROCESSOR]
    if "-mno-avx512fp16" not in command:
        pytest.skip("this gcc has no instructions for float16")
    compiled(command, tmp_path)
    if ") 12." not in toolchain().version:
        return  # Mended in some later ones.
    with pytest.raises(DeviceError, match="unsupported masking for `vmovsh'"):
        compiled([word for word in command if word != "-mno-avx512fp16"], tmp_path)
