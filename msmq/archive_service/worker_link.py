"""WorkerLink: the connection to the process that archives, as lines of JSON on its standard streams."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Protocol

from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import IProcessTransport
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

LONGEST_LINE: Final = 1024 * 1024
"""Bytes of the longest line of the process; a longer one ends it."""

_KEPT_ERRORS: Final = 4096


class WorkerListener(Protocol):
    """Receives what the process reports."""

    def worker_reported(self, record: Mapping[str, Any]) -> None:
        """A line of the process."""

    def worker_ended(self, reason: str) -> None:
        """The process has ended."""


class WorkerLink(ProcessProtocol):
    """See the module.

    @ivar is_alive: whether the process runs.
    """

    transport: IProcessTransport
    _log: ClassVar[Logger] = Logger()

    def __init__(self, listener: WorkerListener, settings: Mapping[str, object]) -> None:
        self._listener = listener
        self._settings = settings
        self._buffer = b""
        self._errors = b""
        self.is_alive = False
        self._is_ending = False

    def connectionMade(self) -> None:
        """Tell the process what to archive; its arguments would show the password of a database."""
        self.is_alive = True
        self.send(self._settings)

    def send(self, record: Mapping[str, object]) -> None:
        """Send a line; no effect after L{end}, which closed the input of the process.

        A process that has closed its input itself, as one that is about to end, can do nothing more for its
        server, and is killed.
        """
        if self._is_ending:
            return
        try:
            self.transport.writeToChild(0, json.dumps(record).encode() + b"\n")
        except KeyError:
            self.kill()

    def outReceived(self, data: bytes) -> None:
        """Read lines."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        if len(self._buffer) > LONGEST_LINE:
            self.kill()
            return
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:
                self.kill()
                return
            self._listener.worker_reported(record)

    def errReceived(self, data: bytes) -> None:
        """Keep the end of the error output, for the reason of an unexpected end."""
        self._errors = (self._errors + data)[-_KEPT_ERRORS:]

    def end(self) -> None:
        """Ask the process to end after its present step."""
        if self.is_alive and not self._is_ending:
            self._is_ending = True
            self.transport.closeChildFD(0)

    def kill(self) -> None:
        """End the process; the archive stays as it was after its last complete step."""
        if self.is_alive:
            try:
                self.transport.signalProcess("KILL")
            except ProcessExitedAlready:
                pass

    def processEnded(self, reason: Failure) -> None:
        """Report the end, with the last line of the error output if there is one."""
        self.is_alive = False
        lines = self._errors.decode("utf-8", "replace").strip().splitlines()
        self._listener.worker_ended(lines[-1][:500] if lines else reason.getErrorMessage())
