"""One run of a server with a temporary data directory, inside a program such as a broker or a double."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.service.process.shared_run import SharedRun

if TYPE_CHECKING:
    from msmq.service.server import Server


class ServerRun:
    """What one start has made: its stop ends that alone, whatever another start makes meanwhile.

    @param owner: what runs the server, for the log.
    @param prefix: of the name of the temporary data directory.
    @ivar server: the server, from L{begin} until the stop.
    @ivar is_ending: whether a stop has begun.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, owner: str, prefix: str) -> None:
        self.server: Server | None = None
        self.is_ending = False
        self._owner = owner
        self._prefix = prefix
        self._directory: Path | None = None
        self._started: Deferred[None] = Deferred()
        self._stopping = SharedRun(self._stop, self._not_stopped)

    async def start(self, steps: Coroutine[Any, Any, None]) -> None:
        """Take the steps of the start, which has a result when they have one.

        @param steps: they call L{make_directory}, if one is needed, and L{begin}, and wait for the server.
        @raise Exception: that of a step; the temporary data directory is removed.
        """
        try:
            await steps
        except BaseException:
            self.remove_directory()
            raise
        finally:
            self._started.callback(None)

    def make_directory(self) -> Path:
        """Make the temporary data directory."""
        self._directory = Path(tempfile.mkdtemp(prefix=self._prefix))
        return self._directory

    def remove_directory(self) -> None:
        """Remove the temporary data directory, if there is one."""
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def begin(self, server: Server) -> None:
        """Start the server."""
        self.server = server
        server.startService()

    def stop(self) -> Deferred[None]:
        """Stop the server, wait for the end of the start, and remove the directory.

        Each caller gets a separate Deferred, and cancelling it ends the wait alone, not the stop.
        """
        self.is_ending = True
        return self._stopping.join()

    async def _stop(self) -> None:
        server, self.server = self.server, None
        try:
            if server is not None:
                await server.stopService()
            # A start that is cancelled closes what it has opened.
            await self._started
        finally:
            self.remove_directory()

    def _not_stopped(self, failure: Failure) -> None:
        self.log.failure("{owner} could not stop", failure, owner=self._owner)
