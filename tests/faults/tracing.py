"""Processes under C{strace}: what they ask of the system, and faults in the answers."""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

from tests.faults import IS_THOROUGH
from tests.patience import DEADLINE

FILTER: Final = "--seccomp-bpf"
"""The filter in the kernel, by which only the calls that are traced are slowed down."""

FILTERED: Final = (FILTER,) if IS_THOROUGH else ()
"""Of a server under load: with a sample of it, a start as a fork saves more than the filter does."""

_TRIAL = (FILTER, "-f", "-e", "trace=fsync", "-e", "inject=fsync:error=EIO")


@functools.cache
def why_not() -> str | None:
    """Why no process can be traced here; C{None} if it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    program = ["sh", "-c", "exec sync ."]
    done = subprocess.run(["strace", *_TRIAL, *program], capture_output=True, text=True, timeout=DEADLINE)
    if "INJECTED" in done.stderr:
        return None
    return f"tracing a process is not allowed here: {done.stderr.strip().splitlines()[-1:]}"


@attrs.frozen
class Fault:
    """A call that fails without being done.

    @ivar error: what the system says, C{ENOSPC} for example; C{KILL} ends the process there instead.
    @ivar number: which one of each thread, from 1.
    @ivar is_lasting: whether all that come after it fail too.
    """

    call: str
    error: str
    number: int
    is_lasting: bool = False

    def __str__(self) -> str:
        return f"{self.call} {self.number}{'+' if self.is_lasting else ''}: {self.error}"

    @property
    def options(self) -> tuple[str, ...]:
        """The options of C{strace}."""
        effect = "signal=KILL" if self.error == "KILL" else f"error={self.error}"
        when = f"{self.number}{'+' if self.is_lasting else ''}"
        return ("-e", f"inject={self.call}:{effect}:when={when}")


def attach(command: Sequence[str], process: int) -> subprocess.Popen[bytes]:
    """Trace a process that has stopped itself, with the command of L{tracer}, and resume it."""
    options = [option for option in command if option != "-D"]
    status = Path(f"/proc/{process}/status")
    while "State:\tT" not in status.read_text():
        time.sleep(0.001)
    tracing = subprocess.Popen([*options, "-q", "-p", str(process)], stdin=subprocess.DEVNULL)
    while "TracerPid:\t0\n" in status.read_text():
        assert tracing.poll() is None, "the tracer has ended; its standard error says why"
        time.sleep(0.001)
    os.kill(process, signal.SIGCONT)
    return tracing


def tracer(log: Path, calls: str, *options: str, only: Sequence[Path] = ()) -> list[str]:
    """The tracing command that precedes the command of the traced process.

    The tracer is not the parent of the process, and ends with it.

    @param calls: the names of the traced calls, separated by commas.
    @param only: only calls on one of these files are traced.
    """
    paths = [part for path in only for part in ("-P", str(path))]
    how = ("-D", "-f", "-v", "-xx", "-yy", "-o", str(log), "-e", f"trace={calls}")
    return ["strace", *how, *paths, *options]


@attrs.frozen
class Call:
    """One system call of a process.

    @ivar thread: which thread made it.
    @ivar file: the path, or what else stands for the descriptor that is the first argument.
    @ivar arguments: all of them as text, strings in hex.
    @ivar result: the result; C{None} if the process did not live to see it.
    @ivar began: its position among the beginnings and ends of all calls; C{ended} is the same.
    """

    thread: int
    name: str
    file: str
    arguments: str = attrs.field(repr=False)
    result: int | None
    began: int
    ended: int

    @property
    def data(self) -> bytes:
        """The first string behind the descriptor, or all buffers of a vector; none of them may be cut."""
        if self.name == "pwritev2":
            found_all = list(_BUFFER.finditer(self.arguments))
            assert all(found[2] is None for found in found_all), "the tracer has cut a string"
            return b"".join(unhex(found[1]) for found in found_all)
        descriptor = _FILE.match(self.arguments)
        found = _STRING.search(self.arguments, descriptor.end() if descriptor is not None else 0)
        if found is None:
            return b""
        assert found[2] is None, "the tracer has cut a string"
        return unhex(found[1])

    @property
    def last_number(self) -> int:
        """The last argument, which has to be a number: an offset, a length."""
        return int(self.arguments.rpartition(",")[2])


_BUFFER = re.compile(r'iov_base="((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_LINE = re.compile(r"(\d+) +(.*)")
_WHOLE = re.compile(r"(\w+)\((.*)\) += (-?\d+|\?)(?:<[^>]*>)?(?: .*)?")
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)")
_FILE = re.compile(r"\d+<([A-Z-]+:\[[^]]*\]|[^>]*)>")


def unhex(text: str) -> bytes:
    r"""Decode C{\x61\x62}."""
    return bytes.fromhex(text.replace("\\x", ""))


def read_log(path: Path) -> Iterator[Call]:
    """The calls in a log, in the order in which they ended."""
    unfinished: dict[int, tuple[int, str]] = {}
    with path.open() as lines:
        for place, line in enumerate(lines):
            found = _LINE.match(line)
            assert found is not None, line
            thread, text = int(found[1]), found[2]
            began = place
            if text.endswith("<unfinished ...>"):
                unfinished[thread] = place, text.removesuffix("<unfinished ...>").rstrip()
                continue
            if (resumed := _RESUMED.match(text)) is not None:
                began, beginning = unfinished.pop(thread)
                text = beginning + resumed[2]
            if (whole := _WHOLE.fullmatch(text)) is not None:
                yield _call(thread, whole[1], whole[2], whole[3], began, place)


def _call(thread: int, name: str, arguments: str, result: str, began: int, ended: int) -> Call:
    found = _FILE.match(arguments)
    file = "" if found is None else _HEX.sub(lambda run: unhex(run[0]).decode("utf-8", "replace"), found[1])
    return Call(thread, name, file, arguments, None if result == "?" else int(result), began, ended)


_HEX = re.compile(r"(?:\\x[0-9a-f]{2})+")
