"""Test tar archives of Python; archives that reach outside are refused."""

from __future__ import annotations

import io
import os
import tarfile

import pytest

from tinyref import Tensor
from tinyref.errors import UserError
from tinyref.nn.state import tar_extract

FILES = {
    "a.txt": b"hello",
    "folder/b.bin": bytes(range(256)) * 5,
    "empty": b"",
    "folder/ключ": b"1",
    "x" * 90 + "/" + "y" * 200: b"a long name",
    "exactly": bytes(512),
}


def archive(
    files: dict[str, bytes] = FILES, format: int = tarfile.PAX_FORMAT, **members: tarfile.TarInfo
) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as tar:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for member in members.values():
            tar.addfile(member)
    return out.getvalue()


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_regular_files_are_views(tmp_path, format):
    path = tmp_path / "files.tar"
    path.write_bytes(archive(format=format))
    for source in (path, str(path), Tensor(path), Tensor(path, device="CPU")):
        tensors = tar_extract(source)
        assert {name: tensor.numpy().tobytes() for name, tensor in tensors.items()} == FILES
    assert tar_extract(path)["a.txt"].device == f"DISK:{path}"
    assert os.listdir(tmp_path) == ["files.tar"]


def test_the_oldest_format_and_an_empty_archive():
    short = {"a": b"1", "b/c": b"22"}
    tensors = tar_extract(Tensor(archive(short, format=tarfile.USTAR_FORMAT)))
    assert {name: tensor.numpy().tobytes() for name, tensor in tensors.items()} == short
    assert tar_extract(Tensor(bytes(10240))) == {}
    # The zeros at the end may be missing.
    assert list(tar_extract(Tensor(archive({"a": b"1"})[:1536]))) == ["a"]


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = link
    return info


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (member("/etc/passwd"), "leads outside"),
        (member("../x"), "leads outside"),
        (member("a/../../x"), "leads outside"),
        (member("a\\..\\x"), "leads outside"),
        (member("/folder", tarfile.DIRTYPE), "leads outside"),
        (member("../link", tarfile.SYMTYPE, "a.txt"), "leads outside"),
        (member("/link", tarfile.LNKTYPE, "a.txt"), "leads outside"),
        (member("device", tarfile.CHRTYPE), "is not a regular file"),
        (member("disk", tarfile.BLKTYPE), "is not a regular file"),
        (member("pipe", tarfile.FIFOTYPE), "is not a regular file"),
        (member("unknown", b"Z"), "is not a regular file"),
        (member("a.txt"), "two files have the path 'a.txt'"),
    ],
)
def test_members_that_reach_outside_are_refused(bad, reason):
    with pytest.raises(UserError, match=reason):
        tar_extract(Tensor(archive(bad=bad)))


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_links_are_skipped_by_name(tmp_path, format):
    path = tmp_path / "files.tar"
    links = {
        "first": member("folder/link", tarfile.SYMTYPE, "/etc/passwd"),
        "second": member("hard", tarfile.LNKTYPE, "../../a.txt"),
        # A link with the name of a file does not hide the file.
        "third": member("a.txt", tarfile.SYMTYPE, "x" * 300),
        "fourth": member("bad\x1b[2Jname\n", tarfile.SYMTYPE, "a.txt"),
    }
    path.write_bytes(archive(format=format, **links))
    with pytest.warns(UserWarning, match="links are skipped") as caught:
        tensors = tar_extract(path)
    assert {name: tensor.numpy().tobytes() for name, tensor in tensors.items()} == FILES
    (warning,) = caught
    assert str(warning.message) == (
        "tar_extract: links are skipped: 'folder/link', 'hard', 'a.txt', 'bad\\x1b[2Jname\\n'"
    )
    assert warning.filename == __file__
    assert os.listdir(tmp_path) == ["files.tar"]


def test_many_links_are_counted():
    links = {f"number{n}": member(f"link{n}", tarfile.SYMTYPE, "a.txt") for n in range(13)}
    with pytest.warns(UserWarning, match=r"'link9' and 3 more$"):
        assert sorted(tar_extract(Tensor(archive(**links)))) == sorted(FILES)


def header(size: bytes, name: bytes = b"name", kind: bytes = b"0") -> bytes:
    block = bytearray(tarfile.TarInfo(name.decode()).tobuf(tarfile.USTAR_FORMAT))
    block[124:136] = size.ljust(12, b"\0")
    block[156:157] = kind
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


BROKEN = {
    "nothing": (b"", "empty|not a tar"),
    "no archive": (b"hello" * 300, "invalid|not a tar|broken|bad"),
    "compressed": (b"\x1f\x8b\x08" + bytes(2000), "tar_extract"),
    "cut in a file": (archive({"a": bytes(5000)})[:2000], "ends at byte|unexpected end"),
    "cut in a header": (archive({"a": b"1", "b": b"2"})[:1800], "truncated|broken|unexpected"),
    "a broken header later": (
        archive({"a": b"1"})[:1536] + b"x" * 512 + bytes(1024),
        "a broken header at byte 1536",
    ),
    "a size beyond the file": (header(b"77777777777") + bytes(1024), "ends at byte"),
    "a negative size": (header(b"\xff" * 12) + bytes(2048), "size|seek|before"),
    "a negative size of a name": (header(b"\xff" * 12, kind=b"L") + bytes(2048), "tar_extract"),
    "a negative size of records": (header(b"\xff" * 12, kind=b"x") + bytes(2048), "tar_extract"),
    "a long name that is not there": (header(b"77777777777", kind=b"L"), "tar_extract"),
    "names of names": (header(b"00000001000", kind=b"L") * 5000, "tar_extract"),
    "a sparse file": (header(b"00000000000", kind=b"S") + bytes(2048), "sparse|no regular"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_archives_are_refused(name):
    data, reason = BROKEN[name]
    with pytest.raises(UserError, match=reason) as caught:
        tar_extract(Tensor(data))
    assert "\n" not in str(caught.value)
