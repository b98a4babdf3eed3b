"""What a disk may hold after the power has failed, by a trace of what was asked of it.

What was written and synchronised is there; of everything else any part may be there or not, each write for
itself and each sector of it, whatever the order was in which it was asked for.
The same goes for the names in a directory.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import attrs

from tests.faults.tracing import Call, unhex

TRACED = "openat,pwrite64,ftruncate,fallocate,unlink,fdatasync,fsync"

SECTOR = 512
"""Bytes that come on the disk all together, or not at all."""

_PATH = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


@attrs.frozen
class Write:
    """Bytes at an offset, or, if there are none, the end of the file at that offset."""

    offset: int
    data: bytes | None = attrs.field(repr=False)

    def apply(self, content: bytearray) -> None:
        """Have it in a file."""
        end = self.offset + len(self.data or b"")
        if self.data is None:
            del content[end:]
        if len(content) < end:
            content.extend(bytes(end - len(content)))
        if self.data is not None:
            content[self.offset : end] = self.data

    def parts(self, chance: random.Random, likelihood: float) -> list[Write]:
        """What comes on the disk of it: nothing, all, or some sectors."""
        if self.data is None or len(self.data) <= SECTOR or chance.random() < 0.7:
            return [self] if chance.random() < likelihood else []
        return [
            Write(self.offset + start, self.data[start : start + SECTOR])
            for start in range(0, len(self.data), SECTOR)
            if chance.random() < likelihood
        ]


@attrs.define
class File:
    """One file: what is surely on the disk, and what was written since."""

    surely: bytearray = attrs.field(factory=bytearray)
    pending: list[Write] = attrs.field(factory=list)

    def write(self, write: Write) -> None:
        """Not on the disk yet."""
        self.pending.append(write)

    def synchronise(self) -> None:
        """All of it is on the disk."""
        for write in self.pending:
            write.apply(self.surely)
        self.pending.clear()

    def content(self, choose: Callable[[Write], Iterable[Write]]) -> bytes:
        """What is found of it, with some of what was written last."""
        content = bytearray(self.surely)
        for write in self.pending:
            for part in choose(write):
                part.apply(content)
        return bytes(content)


@attrs.define
class Disk:
    """Follows a trace, call by call.

    @ivar files: by their names.
    @ivar named: whether a name is surely in its directory.
    """

    files: dict[str, File] = attrs.field(factory=dict)
    named: dict[str, bool] = attrs.field(factory=dict)
    _renamed: dict[str, bool] = attrs.field(factory=dict)

    def follow(self, call: Call) -> None:
        """One more call has ended."""
        if call.result is None or call.result < 0:
            return
        match call.name:
            case "openat":
                if "O_CREAT" in call.arguments and (path := _path(call)) not in self.files:
                    self.files[path] = File()
                    self._renamed[path] = True
            case "unlink":
                path = _path(call)
                self._renamed[path] = False
                self.files.pop(path, None)
            case "pwrite64":
                self._file(call).write(Write(call.last_number, call.data))
            case "ftruncate":
                self._file(call).write(Write(call.last_number, None))
            case "fdatasync" | "fsync":
                if call.file in self.files:
                    self.files[call.file].synchronise()
                else:
                    self.named |= self._renamed
                    self._renamed.clear()

    def _file(self, call: Call) -> File:
        return self.files.setdefault(call.file, File())

    def leave(self, directory: Path, chance: random.Random, likelihood: float) -> None:
        """Write what is found afterwards into another directory.

        @param likelihood: of each part of what is not sure, 0 to 1, to have come on the disk.
        """
        for path, file in self.files.items():
            if self.named.get(path, False) or chance.random() < likelihood:
                content = file.content(lambda write: write.parts(chance, likelihood))
                (directory / Path(path).name).write_bytes(content)


def _path(call: Call) -> str:
    found = _PATH.search(call.arguments)
    assert found is not None, call
    return unhex(found[1]).decode()
