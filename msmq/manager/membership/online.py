"""Check Directory Online when a request needs an unreachable directory. [MS-MQDMPR] 3.1.7.1.25."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.deadline_timer import DeadlineTimer
from msmq.interfaces.clock import IClock
from msmq.manager.membership.directory_router import ProcedureRunner
from msmq.membership.access import DirectoryAccess
from msmq.membership.public_queues import retry_deletions
from msmq.membership.upkeep import ask_again
from msmq.moment import Moment
from msmq.structures.status import MQError

SPACING: Final = 0.25
"""Seconds from the end of a check until the next one may begin."""

PATIENCE: Final = 1.0
"""Seconds that requests wait for a check, from its beginning; then they are answered as offline."""

POLLING: Final = 1.0
"""Seconds between checks while messages wait for the directory without a request."""


class OnlineChecks:
    """Checks whether a directory that was away is back, when a request needs it.

    The Directory Online Timer of a minute ([MS-MQDMPR] 3.1.2.5) runs as well, for a queue manager that does
    not query the directory for that long.
    There is one check at a time, and requests that arrive meanwhile wait for it; a directory that takes
    longer than L{PATIENCE} delays no request further.

    @param run: runs the procedures of C{access}, and calls L{note} after each.
    @param is_needed: whether messages wait for information from the directory.
    @param returned: called when the directory has answered again.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        access: DirectoryAccess,
        run: ProcedureRunner,
        clock: IClock,
        reactor: IReactorTime,
        *,
        is_needed: Callable[[], bool],
        returned: Callable[[], None],
    ) -> None:
        self._access = access
        self._run = run
        self._clock = clock
        self._reactor = reactor
        self._is_needed = is_needed
        self._returned = returned
        self._poll = DeadlineTimer(reactor, clock, self._poll_again)
        self._waiting: list[Deferred[None]] = []
        self._is_under_way = False
        self._is_polling = False
        self._was_offline = False
        self._began = 0.0
        self._next = 0.0
        self._is_stopped = False

    async def check(self) -> None:
        """Check a directory that was away, unless it was checked within the last L{SPACING} seconds.

        It returns when the check has ended, or has lasted L{PATIENCE} seconds.
        """
        if not self.begin():
            return
        left = self._began + PATIENCE - self._clock.now().monotonic
        if left <= 0:
            return
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        waiting.addTimeout(left, self._reactor)
        waiting.addErrback(lambda failure: failure.trap(TimeoutError) and None)
        await waiting

    def begin(self) -> bool:
        """Begin a check, if one is due.

        @return: whether one is running.
        """
        if not self._access.local.directory_offline or self._is_stopped:
            return False
        now = self._clock.now().monotonic
        if not self._is_under_way:
            if now < self._next:
                return False
            self._is_under_way, self._began = True, now
            Deferred.fromCoroutine(self._check()).addErrback(self._failed)
        return self._is_under_way

    def note(self) -> None:
        """Record whether the directory is unreachable, after every procedure that has queried it."""
        was_offline, self._was_offline = self._was_offline, self._access.local.directory_offline
        if not self._was_offline:
            if was_offline and not self._is_stopped:
                self._returned()
        elif not self._is_polling:
            self._is_polling = True
            self._poll.set(self._clock.now().monotonic + POLLING)

    def stop(self) -> None:
        """Stop checking, and end all pending checks."""
        self._is_stopped = True
        self._poll.stop()
        self._release()

    async def _check(self) -> None:
        access = self._access
        is_online = False
        try:
            if access.is_provisioned:
                is_online = await self._run(access.ask_whether_online())
            else:
                await self._run(ask_again(access, self._clock.now()))
        except MQError as error:
            self.log.error("the directory is not used: {error}; it is checked again", error=error)
        finally:
            self._is_under_way = False
            self._next = self._clock.now().monotonic + SPACING
            self._release()
        if is_online and not self._is_stopped:
            await self._run(access.refresh_public_queues())
            await self._run(retry_deletions(access))

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.called:
                each.callback(None)

    def _poll_again(self, now: Moment) -> None:
        self._is_polling = False
        if self._is_needed():
            self.begin()
        self.note()

    def _failed(self, failure: Failure) -> None:
        self.log.failure("The check whether the directory is back failed.", failure)
