"""Records what peers send, byte for byte, into files that C{msmq decode} reads.

Each session has a file of its own, from the first packet of the handshake to the last message; messages
are recorded and acknowledged, and not processed otherwise::

    python examples/recorder.py tcp:1801:interface=127.0.0.3 recordings
    msmq decode recordings/127.0.0.2-1.msmq
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID, uuid4

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import react
from twisted.python.failure import Failure

from msmq import IClock, SessionFactory, SessionProtocol, UserMessageView


class RecordingSession(SessionProtocol):
    """Session that records every received byte before it is parsed."""

    factory: RecordingFactory
    _file: BinaryIO

    def connectionMade(self) -> None:
        """Open the file."""
        super().connectionMade()
        self._file = self.factory.new_file(self.remote_address)

    def dataReceived(self, data: bytes) -> None:
        """Record first, so that the file has malformed packets too."""
        self._file.write(data)
        super().dataReceived(data)

    def messages_arriving(self, messages: Sequence[UserMessageView], first_recoverable: int) -> None:
        """Acknowledge recoverable messages once they are on disk."""
        recoverable = sum(message.is_recoverable for message in messages)
        if recoverable:
            self._file.flush()
            os.fsync(self._file.fileno())
            self.persisted(first_recoverable + recoverable - 1)

    def connectionLost(self, reason: Failure | None = None) -> None:
        """Close the file."""
        super().connectionLost(reason)
        self._file.close()


class RecordingFactory(SessionFactory):
    """Accepts sessions, each with a file of its own.

    @param directory: the directory for the files; it is created if it does not exist.
    """

    protocol = RecordingSession

    def __init__(
        self, identifier: UUID, directory: Path, *, reactor: IReactorTime, clock: IClock | None = None
    ) -> None:
        super().__init__(identifier, reactor=reactor, clock=clock)
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory

    def new_file(self, address: str) -> BinaryIO:
        """Create a new file, named after the peer."""
        for number in itertools.count(1):
            try:
                return (self._directory / f"{address}-{number}.msmq").open("xb")
            except FileExistsError:
                continue
        raise AssertionError("numbers do not end")


async def main(reactor: Any, endpoint: str, directory: str = "recordings") -> None:
    """Record until the process is stopped."""
    factory = RecordingFactory(uuid4(), Path(directory), reactor=reactor)
    await serverFromString(reactor, endpoint).listen(factory)
    print(f"records what arrives on {endpoint} in {directory}", flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, sys.argv[1:])
