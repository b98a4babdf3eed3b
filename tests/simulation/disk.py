"""A simulated disk: what is in the page cache, what is on the platter, and what a power cut leaves."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final, TypeAlias

SECTOR: Final = 512

_ZEROS: Final = bytes(1 << 16)

Undo: TypeAlias = tuple[int, bytes, int]
"""An offset, the bytes that were there, and the size of the file before."""


class SimulatedFile:
    """Content of one file.

    @ivar unsynced: the writes since it was synchronised, each with what it replaced.
    """

    __slots__ = ("content", "unsynced")

    def __init__(self) -> None:
        self.content = bytearray()
        self.unsynced: list[Undo] = []

    def write(self, offset: int, data: bytes, *, is_synced: bool) -> None:
        """Write at an offset."""
        end = offset + len(data)
        if not is_synced:
            self.unsynced.append((offset, bytes(self.content[offset:end]), len(self.content)))
        if len(self.content) < offset:
            self.content.extend(bytes(offset - len(self.content)))
        self.content[offset:end] = data
        if is_synced and self.unsynced:
            self.unsynced = [_covered(undo, offset, data) for undo in self.unsynced]

    @property
    def used(self) -> int:
        """The size without the zeros at the end."""
        end = len(self.content)
        # rstrip() looks at each byte of a segment, most of which are zeros; blocks are compared at once.
        while end >= len(_ZEROS) and self.content.endswith(_ZEROS, end - len(_ZEROS), end):
            end -= len(_ZEROS)
        last = max(0, end - len(_ZEROS))
        return last + len(self.content[last:end].rstrip(b"\0"))

    def resize(self, size: int) -> None:
        """Cut it, or fill it with zeros."""
        self.unsynced.append((size, bytes(self.content[size:]), len(self.content)))
        if size < len(self.content):
            del self.content[size:]
        else:
            self.content.extend(bytes(size - len(self.content)))

    def lose(self, chance: Random, likelihood: float) -> None:
        """Lose each unsynchronised sector with this likelihood."""
        while self.unsynced:
            offset, before, size = self.unsynced.pop()
            for start in range(0, len(before), SECTOR):
                if chance.random() < likelihood:
                    piece = before[start : start + SECTOR]
                    self.content[offset + start : offset + start + len(piece)] = piece
            if len(self.content) > size and chance.random() < likelihood:
                del self.content[size:]


def _covered(undo: Undo, offset: int, data: bytes) -> Undo:
    """What an earlier write replaced, after a synchronised one over a part of it: that part stays."""
    start, before, size = undo
    first, last = max(start, offset), min(start + len(before), offset + len(data))
    if first < last:
        middle = data[first - offset : last - offset]
        before = before[: first - start] + middle + before[last - start :]
    return start, before, max(size, offset + len(data))


class SimulatedDisk:
    """The files of one host, over all its lives.

    @ivar names: files by their path; C{renames} has the entries that are not synchronised, with what they
        replaced.
    @ivar last_group: where the last synchronised write is: its file, start and end.
    """

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.names: dict[Path, SimulatedFile] = {}
        self.renames: list[tuple[Path, SimulatedFile | None]] = []
        self.is_full = False
        self.last_group: tuple[SimulatedFile, int, int] | None = None

    def name(self, path: Path, file: SimulatedFile | None) -> None:
        """Give a file a name, or take it away."""
        self.renames.append((path, self.names.get(path)))
        if file is None:
            self.names.pop(path, None)
        else:
            self.names[path] = file

    def sync_names(self, directory: Path) -> None:
        """Synchronise the names in a directory."""
        self.renames = [entry for entry in self.renames if entry[0].parent != directory]

    def lose_power(self, likelihood: float) -> None:
        """Lose what is not synchronised: sectors each by chance, and the last of the changed names.

        With a likelihood of 0 a process is killed: nothing is lost, and nothing more is synchronised.
        """
        if not likelihood:
            return
        lost = self.chance.randint(0, len(self.renames))
        for _ in range(lost):
            path, before = self.renames.pop()
            if before is None:
                self.names.pop(path, None)
            else:
                self.names[path] = before
        self.renames.clear()
        for file in self.names.values():
            file.lose(self.chance, likelihood)

    def files(self, prefix: str) -> list[tuple[Path, SimulatedFile]]:
        """The files whose name begins so, in order."""
        return sorted(entry for entry in self.names.items() if entry[0].name.startswith(prefix))
