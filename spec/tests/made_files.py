"""Makes the files that `tinyref_spec.system.state_files` keeps, with the programs they come from.

`python spec/tests/made_files.py` writes that module anew: torch, gguf and tarfile write the files,
deflated and in base64. Their zip and tar headers hold times, so the bytes differ from run to run.
"""

from __future__ import annotations

import base64
import io
import tarfile
import tempfile
import textwrap
import zlib
from pathlib import Path

import gguf
import numpy as np
import torch

MODULE = Path(__file__).parents[1] / "tinyref_spec/system/state_files.py"
HEAD = '''"""Small files of other programs, as bytes: made once, by `spec/tests/made_files.py`.

TORCH and TORCH_LEGACY: torch.save of {"weight": (2, 3) float32, a part of a transposed tensor;
"bias": (2,) int32; "epoch": 7; "names": ["a", None]}. GGUF: gguf.GGUFWriter, two texts and numbers,
one tensor of float32 and one of Q4_0. TAR: tarfile, three files and a directory.
"""

import base64
import zlib


def _bytes(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))

'''


def checkpoint(is_zip: bool) -> bytes:
    """A file of torch.save."""
    x = torch.arange(12, dtype=torch.float32).reshape(4, 3) / 4
    bias = torch.tensor([5, -6], dtype=torch.int32)
    item = {"weight": x[1:, :2].t(), "bias": bias, "epoch": 7, "names": ["a", None]}
    file = io.BytesIO()
    torch.save(item, file, _use_new_zipfile_serialization=is_zip)
    return file.getvalue()


def model() -> bytes:
    """A file of the gguf package. Its Q4_0: scale 0.5, low halves 0 to 15, high halves 15 to 0."""
    block = np.zeros((1, 18), np.uint8)
    block[0, :2] = np.array([0.5], np.float16).view(np.uint8)
    block[0, 2:] = np.arange(16) + 16 * (15 - np.arange(16))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_uint32("layers", 2)
        writer.add_string("name", "ü")
        writer.add_array("sizes", [1, -2])
        writer.add_tensor("plain", np.arange(6, dtype=np.float32).reshape(2, 3) / 4)
        writer.add_tensor("blocks", block, raw_dtype=gguf.GGMLQuantizationType.Q4_0)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


def archive() -> bytes:
    """A file of tarfile."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        folder = tarfile.TarInfo("sub")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, content in (("a.txt", b"one\n"), ("sub/b", bytes(range(250, 256))), ("c", b"")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return file.getvalue()


def made() -> dict[str, bytes]:
    """Every file by the name of its constant."""
    return {
        "TORCH": checkpoint(is_zip=True),
        "TORCH_LEGACY": checkpoint(is_zip=False),
        "GGUF": model(),
        "TAR": archive(),
    }


def written(name: str, data: bytes) -> str:
    """A constant of the module."""
    text = base64.b64encode(zlib.compress(data, 9)).decode()
    lines = "\n".join(f'    "{line}"' for line in textwrap.wrap(text, 90))
    return f"\n{name} = _bytes(\n{lines}\n)"


if __name__ == "__main__":
    constants = "".join(written(name, data) for name, data in made().items())
    MODULE.write_text(f"{HEAD}{constants}\n")
