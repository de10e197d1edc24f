"""tar archives: the regular files in them, as views of the archive."""

from __future__ import annotations

import tarfile
import warnings
from pathlib import PurePath
from typing import Any, cast

from tinyref.nn.state.reading import ByteReader, parsed, tensor_of_bytes
from tinyref.tensor import Tensor

# The maximum number of links that a warning lists.
MAX_LINKS = 10


def tar_extract(t: Tensor | str | PurePath) -> dict[str, Tensor]:
    r"""Return the bytes of each regular file in an archive, by its path in the archive.

    `t` is a path, or the bytes of an archive on any device. Nothing is written to disk. Directories
    are skipped, and links too, with a warning that lists them. Raises `UserError` for bytes that
    are not a complete archive without compression. Raises it also for devices, sparse files,
    absolute paths, paths with "..", and two files with one path.

    Examples:
        >>> import io, tarfile
        >>> packed = io.BytesIO()
        >>> with tarfile.open(fileobj=packed, mode="w") as archive:
        ...     entry = tarfile.TarInfo("two.bin")
        ...     entry.size = 2
        ...     archive.addfile(entry, io.BytesIO(b"\x05\x06"))
        >>> nn.state.tar_extract(Tensor(packed.getvalue()))["two.bin"].tolist()
        [5, 6]
    """
    tensor = tensor_of_bytes(t, "tar_extract")
    links: list[str] = []

    def parse() -> object:
        with ByteReader(tensor) as file:
            return {name: tensor[begin:end] for name, begin, end in _files(file, links)}

    files = cast(dict[str, Tensor], parsed("tar_extract", parse))
    if links:
        listed = ", ".join(repr(name) for name in links[:MAX_LINKS])
        more = f" and {len(links) - MAX_LINKS} more" if len(links) > MAX_LINKS else ""
        warnings.warn(f"tar_extract: links are skipped: {listed}{more}", stacklevel=2)
    return files


def _files(file: ByteReader, links: list[str]) -> list[tuple[str, int, int]]:
    """Return path, begin and end of each file, and append the paths of links to `links`."""
    files: list[tuple[str, int, int]] = []
    names: set[str] = set()
    archive: Any = tarfile.TarFile(fileobj=cast(Any, file), mode="r", errorlevel=1)
    offset = -1
    while True:
        member = archive.next()
        if member is None:
            break
        # With a negative size in a header, the loop would never end.
        if archive.offset <= offset or member.size < 0:
            raise ValueError(f"{member.name!r} has the size {member.size}")
        offset = archive.offset
        _check_member(member)
        # The library stores all members, and searches them for some kinds.
        archive.members.clear()
        if member.issym() or member.islnk():
            links.append(member.name)
        if not member.isreg():
            continue
        end = member.offset_data + member.size
        if end > file.nbytes:
            raise ValueError(f"{member.name!r} ends at byte {end} of {file.nbytes}")
        if member.name in names:
            raise ValueError(f"two files have the path {member.name!r}")
        names.add(member.name)
        files.append((member.name, member.offset_data, end))
    _check_end(file, archive.offset)
    return files


def _check_member(member: tarfile.TarInfo) -> None:
    name = member.name
    is_link = member.issym() or member.islnk()
    if not (member.isdir() or member.isreg() or is_link) or member.issparse():
        raise ValueError(f"{name!r} is not a regular file: devices and sparse files are refused")
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "\\" in name or "\0" in name or not name:
        raise ValueError(f"the path {name!r} leads outside of the archive")


def _check_end(file: ByteReader, offset: int) -> None:
    """Raise `ValueError` for a broken header, which the library takes for the end of the archive.

    The end must be zeros, or the end of the file.
    """
    file.seek(min(offset, file.nbytes))
    block = file.read(tarfile.BLOCKSIZE)
    if block.strip(b"\0"):
        raise ValueError(f"a broken header at byte {offset}")
    if offset == 0 and len(block) < tarfile.BLOCKSIZE:
        raise ValueError("not a tar archive")
