"""Possible contents of a disk after a power cut, computed from a trace of the system calls of a process.

Synchronised writes are there; of everything else any part may be there or not, each write for itself and each
sector of it, in any order.
The same applies to the names in a directory, and to directories: each creation, renaming and removal for
itself, until the directory that contains the name was synchronised.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

import attrs

from tests.faults.tracing import Call, unhex

TRACED = "openat,mkdir,rename,write,pwrite64,pwritev2,ftruncate,fallocate,unlink,fdatasync,fsync"

WRITES = frozenset({"write", "pwrite64", "pwritev2", "ftruncate"})
"""The calls that change the content of a file."""

SECTOR = 512
"""Bytes that a disk writes completely or not at all."""

_PATH = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


@attrs.frozen
class Write:
    """Bytes at an offset, or, if there are none, the end of the file at that offset.

    @ivar is_synchronised: whether it is surely on the disk.
    """

    offset: int
    data: bytes | None = attrs.field(repr=False)
    is_synchronised: bool = False

    def apply(self, content: bytearray) -> None:
        """Change the content of a file."""
        end = self.offset + len(self.data or b"")
        if self.data is None:
            del content[end:]
        if len(content) < end:
            content.extend(bytes(end - len(content)))
        if self.data is not None:
            content[self.offset : end] = self.data

    def parts(self, chance: random.Random, likelihood: float) -> list[Write]:
        """The possible parts of the write on the disk: none, all, or some sectors."""
        if self.is_synchronised:
            return [self]
        if self.data is None or len(self.data) <= SECTOR or chance.random() < 0.7:
            return [self] if chance.random() < likelihood else []
        return [
            Write(self.offset + start, self.data[start : start + SECTOR])
            for start in range(0, len(self.data), SECTOR)
            if chance.random() < likelihood
        ]


@attrs.define(eq=False)
class File:
    """One file: what is surely on the disk, and what was written since.

    @ivar size: bytes, as the process sees it.
    """

    surely: bytearray = attrs.field(factory=bytearray)
    pending: list[Write] = attrs.field(factory=list)
    size: int = 0

    def write(self, write: Write) -> None:
        """Write; unless that is synchronised it is not on the disk yet."""
        end = write.offset + len(write.data or b"")
        self.size = end if write.data is None else max(self.size, end)
        if write.is_synchronised and not self.pending:
            write.apply(self.surely)
        else:
            self.pending.append(write)

    def synchronise(self) -> None:
        """Everything that was written is on the disk."""
        for write in self.pending:
            write.apply(self.surely)
        self.pending.clear()

    def content(self, choose: Callable[[Write], Iterable[Write]], more: Iterable[Write]) -> bytes:
        """The content of the disk, with some of the last writes.

        @param more: pending writes.
        """
        content = bytearray(self.surely)
        for write in (*self.pending, *more):
            for part in choose(write):
                part.apply(content)
        return bytes(content)


Names: TypeAlias = Mapping[Path, "File | None"]
"""What a system call does to names: the file that each has afterwards, C{None} for none."""


@attrs.define
class Disk:
    """Follows a trace, call by call.

    @param root: the directory whose content is followed.
    @ivar files: by their paths, as the process sees them.
    """

    root: Path
    files: dict[Path, File] = attrs.field(factory=dict)
    _named: dict[Path, File] = attrs.field(factory=dict)
    _pending: list[Names] = attrs.field(factory=list)
    _directories: set[Path] = attrs.field(factory=set)
    _new_directories: set[Path] = attrs.field(factory=set)

    def follow(self, call: Call) -> None:
        """One more call has ended."""
        if call.result is None or call.result < 0:
            return
        match call.name:
            case "openat":
                path = _path(call)
                if "O_CREAT" in call.arguments and path not in self.files:
                    self._rename({path: File()})
                elif "O_TRUNC" in call.arguments and path in self.files:
                    self.files[path].write(Write(0, None))
            case "mkdir":
                self._new_directories.add(_path(call))
            case "rename":
                old, new = _paths(call)
                if old in self.files:
                    self._rename({old: None, new: self.files[old]})
            case "unlink":
                if (path := _path(call)) in self.files:
                    self._rename({path: None})
            case "fdatasync" | "fsync":
                self._synchronise(Path(call.file))
            case _:
                for path, write in self.writes(call):
                    self._file(path).write(write)

    def writes(self, call: Call) -> list[tuple[Path, Write]]:
        """The writes of a call, to a file that is followed."""
        path = Path(call.file)
        if call.name not in WRITES or self.root not in path.parents:
            return []
        if call.name == "ftruncate":
            return [(path, Write(call.last_number, None))]
        data = call.data if call.result is None else call.data[: call.result]
        match call.name:
            case "pwritev2":
                offset, flags = call.arguments.rsplit(",", 2)[1:]
                is_synchronised = "RWF_DSYNC" in flags
                return [(path, Write(int(offset), data, is_synchronised))]
            case "write":
                return [(path, Write(self._file(path).size, data))]
        return [(path, Write(call.last_number, data))]

    def _rename(self, names: Names) -> None:
        names = {path: file for path, file in names.items() if self.root in path.parents}
        for path, file in names.items():
            if file is None:
                self.files.pop(path, None)
            else:
                self.files[path] = file
        self._pending.append(names)

    def _synchronise(self, path: Path) -> None:
        if path in self.files:
            self.files[path].synchronise()
            return
        self._directories |= {one for one in self._new_directories if one.parent == path}
        self._new_directories -= self._directories
        kept: list[Names] = []
        for names in self._pending:
            if all(one.parent == path for one in names):
                _apply(names, self._named)
            else:
                kept.append(names)
        self._pending = kept

    def _file(self, path: Path) -> File:
        return self.files.setdefault(path, File())

    def leave(
        self, directory: Path, chance: random.Random, likelihood: float, under_way: Call | None = None
    ) -> None:
        """Write what is found after a power cut into another directory.

        @param likelihood: of each part of what is not sure, 0 to 1, to have come on the disk.
        @param under_way: a call that had begun and had not ended.
        """
        named = dict(self._named)
        for names in self._pending:
            if chance.random() < likelihood:
                _apply(names, named)
        # A directory whose name is lost is found with nothing in it.
        lost = {one for one in self._new_directories if chance.random() >= likelihood}
        more: dict[Path, list[Write]] = {}
        for path, write in [] if under_way is None else self.writes(under_way):
            more.setdefault(path, []).append(attrs.evolve(write, is_synchronised=False))
        for path, file in named.items():
            if lost.intersection(path.parents):
                continue
            content = file.content(lambda write: write.parts(chance, likelihood), more.get(path, ()))
            target = directory / path.relative_to(self.root)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def _apply(names: Names, named: dict[Path, File]) -> None:
    for path, file in names.items():
        if file is None:
            named.pop(path, None)
        else:
            named[path] = file


def _path(call: Call) -> Path:
    [path, *_] = _paths(call)
    return path


def _paths(call: Call) -> list[Path]:
    return [Path(unhex(found[1]).decode()) for found in _PATH.finditer(call.arguments)]
