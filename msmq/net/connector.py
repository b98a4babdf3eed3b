"""Establish a Protocol Session, [MS-MQQB] 3.1.5.2: dials one next hop for all outgoing queues that lead to
it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar
from uuid import UUID

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import ClientFactory
from twisted.logger import Logger
from zope.interface import implementer

from msmq.interfaces.session import IConnector
from msmq.net.resolver import NextHopAddress
from msmq.net.session import SessionProtocol
from msmq.net.session_factory import SessionFactory
from msmq.session.effects import CloseReason, ConnectionProgress
from msmq.session.state import SessionState
from msmq.structures.status import MQError

Resolve = Callable[[], Awaitable[Sequence[NextHopAddress]]]
"""Finds the addresses of a next hop ([MS-MQQB] 3.1.5.2.1); raises L{MQError} if it has none."""

Probe = Callable[[str], Awaitable[bool]]
"""Sends a Ping Request to an address ([MS-MQQB] 3.1.5.2.2); the result is whether it accepts sessions."""


@implementer(IConnector)
class Connector:
    """Keeps at most one dialled session to a next hop, and dials again while messages wait for it.

    All outgoing queues of that next hop share it.

    @param resolve: finds the addresses, anew for each attempt; they are tried in this order.
    @param has_backlog: whether messages wait for this next hop.
    @param expected_identifier: the queue manager that has to answer; C{None} on a direct format name.
    @param dialled_for: becomes C{dialled_for} of its sessions, which a broker can identify by it.
    @param probe: pings an address before the first attempt, if the settings say so.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        factory: SessionFactory,
        resolve: Resolve,
        has_backlog: Callable[[], bool],
        *,
        expected_identifier: UUID | None = None,
        dialled_for: object = None,
        probe: Probe | None = None,
    ) -> None:
        self._factory = factory
        self._resolve = resolve
        self._has_backlog = has_backlog
        self._expected_identifier = expected_identifier
        self._dialled_for = dialled_for
        self._probe = probe
        self._attempt: Deferred[None] | None = None
        self._is_stopped = False
        self._failures = 0
        self._cut_short: float | None = None
        self._found: tuple[str, ...] = ()
        self._untried: deque[NextHopAddress] = deque()
        self.session: SessionProtocol | None = None

    @property
    def state(self) -> SessionState:
        """The state of the session; also C{CLOSED} while an attempt has no connection yet."""
        return SessionState.CLOSED if self.session is None else self.session.state

    @property
    def addresses(self) -> tuple[str, ...]:
        """NextHops: the addresses of the latest resolution; while a session is open only its own."""
        if self.session is not None and self.session.is_open:
            return (self.session.remote_address,)
        return self._found

    @property
    def is_trying(self) -> bool:
        """Whether an attempt is in progress that has no connection yet."""
        return self._attempt is not None

    def connect(self, *, is_retry: bool = False) -> None:
        """Ensure that a session is open, is being opened, or will be tried again.

        @param is_retry: called by the retry timer, which sends no ping ([MS-MQQB] 3.1.5.2.2).
        """
        if self._is_stopped or self._attempt is not None or self.state is not SessionState.CLOSED:
            return
        if self._factory.is_offline:
            return
        self._count_failure(is_retry)
        self.session = self._factory.build(
            is_initiator=True,
            expected_identifier=self._expected_identifier,
            has_backlog=self._has_backlog,
            retry_time=self._retry_time,
            dial_again=lambda: self.connect(is_retry=True),
        )
        self.session.dialled_for = self._dialled_for
        attempt = Deferred.fromCoroutine(self._dial(self.session, is_retry))
        if not attempt.called:
            self._attempt = attempt
        attempt.addErrback(lambda failure: failure.trap(CancelledError) and None)
        attempt.addErrback(lambda failure: self.log.failure("an attempt to reach a next hop failed", failure))

    def peer_is_there(self) -> None:
        """The peer has just sent something: dial a pending retry at once.

        At most once in the wait of a session that was open: two peers that end every session, or whose
        messages cannot be stored, would otherwise dial each other continuously.
        """
        if self.session is None or self.state is not SessionState.WAITING_RECONNECT:
            return
        now = self._factory.clock.now().monotonic
        if self.session.session.was_open and self._cut_short is not None:
            if now - self._cut_short < self.session.session.reconnect_wait:
                return
        self._cut_short = now
        self.session.close(CloseReason.STOPPED)
        self.connect(is_retry=True)

    @property
    def next_attempt(self) -> float | None:
        """The monotonic second of the next attempt; C{None} unless a retry is pending."""
        return None if self.session is None else self.session.session.next_attempt

    def retry_now(self) -> None:
        """An operator does not want to wait: dial a pending retry at once, and begin with the first wait."""
        if self.session is not None and self.state is SessionState.WAITING_RECONNECT:
            self.session.close(CloseReason.STOPPED)
            self._failures = 0
            self._untried.clear()
            self.connect()

    def _count_failure(self, is_retry: bool) -> None:
        """Count consecutive failed attempts, those of an open session without an acknowledgement among them;
        an attempt for a new message starts again at one.
        """
        failed = self.session is not None and not self.session.session.was_acknowledged
        self._failures = self._failures + 1 if is_retry and failed else 0
        if not self._failures:
            self._untried.clear()

    @property
    def _retry_time(self) -> float:
        """Seconds to wait if the attempt fails: the first wait of the settings, doubled with each failure."""
        settings = self._factory.settings
        # Enough doublings to reach the maximum wait, without overflow of a float.
        doubled = settings.session_retry * 2.0 ** min(self._failures, 32)
        return max(settings.session_retry, min(doubled, settings.session_retry_maximum))

    def stop(self) -> None:
        """Stop dialling, and close the session if there is one."""
        self._is_stopped = True
        if self._attempt is not None:
            self._attempt.cancel()
        if self.session is not None:
            self.session.redial_with(None)
            self.session.close(CloseReason.STOPPED)

    async def _dial(self, protocol: SessionProtocol, is_retry: bool) -> None:
        progress = ConnectionProgress.UNKNOWN_FAILURE
        try:
            progress = await self._try_addresses(protocol, is_retry)
        finally:
            self._attempt = None
            if progress is not ConnectionProgress.IN_PROCESS and not self._is_stopped:
                protocol.attempt_failed(progress)

    async def _try_addresses(self, protocol: SessionProtocol, is_retry: bool) -> ConnectionProgress:
        """Connect to the first address that answers; C{IN_PROCESS} if one did.

        [MS-MQQB] 3.1.6.1: the addresses after one at which the session failed are tried next, before the
        name is resolved again.
        """
        if self._untried and await self._try_found(protocol, is_retry) is ConnectionProgress.IN_PROCESS:
            return ConnectionProgress.IN_PROCESS
        try:
            self._untried.extend(await self._resolve())
        except MQError as error:
            self._log_failure("unresolved", "no address for a next hop: {error}", error=error)
            return ConnectionProgress.DNS_FAILURE
        self._found = tuple(hop.address for hop in self._untried)
        return await self._try_found(protocol, is_retry)

    async def _try_found(self, protocol: SessionProtocol, is_retry: bool) -> ConnectionProgress:
        """Connect to the first address left that answers."""
        progress = ConnectionProgress.DNS_FAILURE
        while self._untried:
            hop = self._untried.popleft()
            protocol.remote_address = hop.address
            if hop.identifier is not None:
                protocol.session.expect(hop.identifier)
            if self._probe is not None and not is_retry:
                if not await self._probe(hop.address):
                    progress = ConnectionProgress.PING_FAILURE
                    continue
                protocol.session.pinged()
            if not self._factory.reserve_descriptor(protocol):
                line = "cannot connect to {address}: all descriptors for dialled sessions are in use"
                self._log_failure("unreachable", line, address=hop.address)
                progress = ConnectionProgress.SOCKET_CONNECT_FAILURE
                continue
            try:
                await hop.endpoint.connect(_Dialled(self._factory, protocol))
            except CancelledError:
                self._factory.release_descriptor(protocol)
                raise
            except Exception as error:
                self._factory.release_descriptor(protocol)
                line = "cannot connect to {address}: {error}"
                self._log_failure("unreachable", line, address=hop.address, error=error)
                progress = ConnectionProgress.SOCKET_CONNECT_FAILURE
            else:
                return ConnectionProgress.IN_PROCESS
        return progress

    def _log_failure(self, kind: str, line: str, **values: object) -> None:
        """Log a failed attempt, within the limit on log lines."""
        if (others := self._factory.peer_line(kind)) is not None:
            self.log.info(line + "{others}", others=others, **values)


class _Dialled(ClientFactory):
    """Passes the connection to its protocol, unless the queue manager went offline meanwhile."""

    noisy = False

    def __init__(self, sessions: SessionFactory, protocol: SessionProtocol) -> None:
        self._sessions = sessions
        self._protocol = protocol

    def buildProtocol(self, addr: IAddress | None) -> SessionProtocol | None:
        return None if self._sessions.is_offline else self._protocol
