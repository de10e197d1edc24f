"""tar archives: the regular files in them, as views of the archive."""

from __future__ import annotations

import tarfile
import warnings
from pathlib import PurePath
from typing import Any, cast

from tinyref.nn.state.reading import ByteReader, parsed, tensor_of_bytes
from tinyref.tensor import Tensor

# The links that a warning names.
MAX_SHOWN = 10


def tar_extract(t: Tensor | str | PurePath) -> dict[str, Tensor]:
    r"""The bytes of each regular file in an archive, by its path in it.

    `t` is a path, or the bytes of an archive on any device. Nothing is written anywhere, and
    directories are passed over; so are links, wherever they lead, with a warning that names them.
    Raises `UserError` for bytes that are no whole archive without compression, and for what has no
    place in one that is only read: devices, sparse files, absolute paths, paths with "..", and two
    files of one path.

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

    found = cast(dict[str, Tensor], parsed("tar_extract", parse))
    if links:
        shown = ", ".join(repr(name) for name in links[:MAX_SHOWN])
        more = f" and {len(links) - MAX_SHOWN} more" if len(links) > MAX_SHOWN else ""
        warnings.warn(f"tar_extract: links are skipped: {shown}{more}", stacklevel=2)
    return found


def _files(file: ByteReader, links: list[str]) -> list[tuple[str, int, int]]:
    """Path, begin and end of each file; the paths of links are added to `links`."""
    found: list[tuple[str, int, int]] = []
    names: set[str] = set()
    archive: Any = tarfile.TarFile(fileobj=cast(Any, file), mode="r", errorlevel=1)
    place = -1
    while True:
        member = archive.next()
        if member is None:
            break
        # A member may say that it has a negative size: then the archive would never end.
        if archive.offset <= place or member.size < 0:
            raise ValueError(f"{member.name!r} has the size {member.size}")
        place = archive.offset
        _check_member(member)
        # The library keeps all members, and looks through them for some kinds.
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
        found.append((member.name, member.offset_data, end))
    _check_end(file, archive.offset)
    return found


def _check_member(member: tarfile.TarInfo) -> None:
    name = member.name
    is_link = member.issym() or member.islnk()
    if not (member.isdir() or member.isreg() or is_link) or member.issparse():
        raise ValueError(f"{name!r} is no regular file: devices and sparse files are refused")
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "\\" in name or "\0" in name or not name:
        raise ValueError(f"the path {name!r} leads outside of the archive")


def _check_end(file: ByteReader, place: int) -> None:
    """The library takes a broken header for the end: the end is zeros, or that of the file."""
    file.seek(min(place, file.nbytes))
    block = file.read(tarfile.BLOCKSIZE)
    if block.strip(b"\0"):
        raise ValueError(f"a broken header at byte {place}")
    if place == 0 and len(block) < tarfile.BLOCKSIZE:
        raise ValueError("no tar archive")
