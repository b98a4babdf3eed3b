"""Table of peers with open sessions; warns of duplicate identifiers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice
from typing import ClassVar, Final
from uuid import UUID

import attrs
from twisted.logger import Logger

from msmq.interfaces.clock import IClock
from msmq.interfaces.session import ISession
from msmq.line_limit import LineLimit
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.moment import Moment
from msmq.persistence.changes import AppendEvent
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.decisions.peer_decision import (
    MOVED_AFTER,
    IdentifierFacts,
    StatedIdentifier,
    classify_identifier,
    is_clock_off,
    is_source_address,
)
from msmq.wire.guid import braced

LINES: Final = 5
"""Lines of the log in a minute about identifiers and clocks of peers."""

MOST_PEERS: Final = 10_000
"""Limit on recorded queue managers; the oldest without a session are dropped first."""

MOST_ADDRESSES: Final = 16
"""Limit on recorded other addresses of one identifier; the latest are kept."""


@attrs.define(eq=False)
class Peer:
    """A queue manager that had a session here.

    @ivar address: its known address.
    @ivar sessions: its open sessions, the oldest first.
    @ivar seen: the monotonic second at which its last session at C{address} ended.
    @ivar others: other addresses that used its identifier, and the first time, in Unix time.
    @ivar offset: the seconds by which SentTime of its latest message was ahead of the local clock.
    @ivar offset_time: when the offset was first logged, in Unix time; C{None} if it never was.
    @ivar worst: the offset that was logged.
    """

    identifier: UUID
    address: str
    sessions: list[ISession] = attrs.field(factory=list)
    seen: float = 0.0
    others: dict[str, float] = attrs.field(factory=dict)
    offset: int = 0
    offset_time: float | None = None
    worst: int = 0


class Peers:
    """Records open sessions by the identifiers of their peers, and detects duplicates of an identifier.

    A known identifier at another address is logged, and messages for that queue manager stay with its known
    address, as L{classify_identifier} decides.

    @param identifier: the local identifier, which no peer may have.
    @ivar trusts: whether identifiers are trusted from any address.
    @param trusted_peers: the addresses from which an identifier is trusted.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, identifier: UUID, clock: IClock, trusted_peers: TrustedPeers, *, trusts: bool) -> None:
        self._identifier = identifier
        self._clock = clock
        self.trusts = trusts
        self._trusted_peers = trusted_peers
        # The least recently connected one comes first.
        self._peers: dict[UUID, Peer] = {}
        self._by_session: dict[ISession, tuple[Peer, bytes]] = {}
        self._at: dict[str, int] = {}
        self._brought: dict[bytes, UUID] = {}
        self._from: dict[bytes, str] = {}
        self._lines = LineLimit.a_minute(LINES)

    # Sessions

    def opened(self, session: ISession) -> None:
        """A session is open."""
        identifier = session.remote_identifier
        if identifier is None:
            return
        address = session.remote_address
        peer = self._peers.pop(identifier, None)
        if peer is None:
            peer = Peer(identifier, address)
        self._peers[identifier] = peer
        self._record_identifier(peer, address)
        peer.sessions.append(session)
        self._by_session[session] = peer, identifier.bytes_le
        self._at[address] = self._at.get(address, 0) + 1
        self._forget_some()

    def closed(self, session: ISession) -> bool:
        """A session has ended; returns whether it was the last one with its address."""
        entry = self._by_session.pop(session, None)
        if entry is None:
            return False
        peer, _ = entry
        peer.sessions.remove(session)
        address = session.remote_address
        if address == peer.address:
            peer.seen = self._clock.now().monotonic
        self._at[address] -= 1
        if self._at[address]:
            return False
        del self._at[address]
        return True

    def session(self, identifier: UUID | None) -> ISession | None:
        """The session for pending messages of a queue manager: the one that was opened first."""
        peer = self._peers.get(identifier) if identifier is not None else None
        if peer is not None:
            for session in peer.sessions:
                if self._is_believed(peer, session):
                    return session
        return None

    def sessions(self, identifier: UUID) -> Sequence[ISession]:
        """The open sessions whose peers state this identifier, at any address; the oldest first."""
        peer = self._peers.get(identifier)
        return () if peer is None else tuple(peer.sessions)

    def session_at(self, identifier: UUID, address: str) -> ISession | None:
        """A session with the peer at this address that states this identifier."""
        peer = self._peers.get(identifier)
        sessions = () if peer is None else peer.sessions
        return next((session for session in sessions if session.remote_address == address), None)

    def _is_believed(self, peer: Peer, session: ISession) -> bool:
        return self.trusts or session.remote_address == peer.address

    def _record_identifier(self, peer: Peer, address: str) -> None:
        """Record an address at which an identifier is stated, and warn of one at several."""
        is_listed = address in peer.others
        stated = classify_identifier(
            IdentifierFacts(
                is_own=peer.identifier == self._identifier,
                is_at_address=address == peer.address,
                is_listed=is_listed,
                is_connected=any(session.remote_address == peer.address for session in peer.sessions),
                absent_for=self._clock.now().monotonic - peer.seen,
            )
        )
        if stated is StatedIdentifier.MOVED:
            peer.address = address
        elif stated is StatedIdentifier.OWN and not is_listed:
            self._warn_of_own(peer, address)
            self._add_address(peer, address)
        elif stated is StatedIdentifier.ELSEWHERE:
            if not peer.others:
                self._warn_of_two(peer, address)
            self._add_address(peer, address)

    def _warn_of_own(self, peer: Peer, address: str) -> None:
        if (others := self._lines.take(self._clock.now())) is not None:
            self.log.warn(
                "the queue manager at {address} has our own identifier {identifier}: "
                "one of the two machines was cloned{others}",
                address=address,
                identifier=braced(peer.identifier),
                others=others,
            )

    def _warn_of_two(self, peer: Peer, address: str) -> None:
        if (others := self._lines.take(self._clock.now())) is not None:
            self.log.warn(
                "queue manager {identifier}, known at {known}, is also at {address}: "
                "a cloned machine, or a peer that claims its identifier{others}",
                identifier=braced(peer.identifier),
                known=peer.address,
                address=address,
                others=others,
            )

    def _add_address(self, peer: Peer, address: str) -> None:
        peer.others[address] = self._clock.now().wall
        if len(peer.others) > MOST_ADDRESSES:
            del peer.others[next(iter(peer.others))]

    def _forget_some(self) -> None:
        excess = len(self._peers) - MOST_PEERS
        if excess > 0:
            idle = (peer.identifier for peer in self._peers.values() if not peer.sessions)
            for identifier in list(islice(idle, excess)):
                del self._peers[identifier]

    def forget_absent(self, now: Moment) -> None:
        """Remove peers that were absent for so long that their identifier is free for any address."""
        absent = [
            peer.identifier
            for peer in self._peers.values()
            if not peer.sessions and now.monotonic - peer.seen >= MOVED_AFTER
        ]
        for identifier in absent:
            del self._peers[identifier]

    # Clocks

    def arrived(self, session: ISession, messages: Sequence[UserMessageView], now: Moment) -> bytes | None:
        """Record a batch of messages; the last one shows the offset of the sender's clock.

        @return: the bytes of the GUID that the peer states; C{None} before it has stated one.
        """
        entry = self._by_session.get(session)
        if entry is None:
            identifier = session.remote_identifier
            return None if identifier is None else identifier.bytes_le
        peer, own = entry
        message = messages[-1]
        if message.source_queue_manager != own:
            for other in messages:
                self._record_router(other.source_queue_manager, peer.identifier)
                self._record_source(other.source_queue_manager, session.remote_address)
            return own
        self._record_source(own, session.remote_address)
        peer.offset = message.sent_time - int(now.wall)
        if peer.offset_time is None and is_clock_off(peer.offset):
            peer.offset_time = now.wall
            peer.worst = peer.offset
            if (others := self._lines.take(self._clock.now())) is not None:
                self.log.warn(
                    "queue manager {identifier} at {address}: {offset}{others}",
                    identifier=braced(peer.identifier),
                    address=session.remote_address,
                    offset=_offset_text(peer.offset),
                    others=others,
                )
        return own

    def _record_router(self, source: bytes, router: UUID) -> None:
        self._brought.pop(source, None)
        self._brought[source] = router
        if len(self._brought) > MOST_PEERS:
            del self._brought[next(iter(self._brought))]

    def _record_source(self, source: bytes, address: str) -> None:
        known = self._from.get(source)
        if is_source_address(known, address, lambda: self._trusted_peers.admits(address)):
            self._from.pop(source, None)
            self._from[source] = address
            if len(self._from) > MOST_PEERS:
                del self._from[next(iter(self._from))]

    def came_from(self, source: bytes) -> str:
        """The address from which messages of a queue manager arrived last; empty if unknown."""
        return self._from.get(source, "")

    def brought_by(self, source: UUID) -> UUID | None:
        """The queue manager that forwarded messages of this one last; C{None} without one."""
        return self._brought.get(source.bytes_le)

    # Monitoring

    def clock_skew(self, session: ISession) -> float | None:
        """Seconds by which the clock of the peer of a session is ahead; C{None} within a minute."""
        entry = self._by_session.get(session)
        if entry is None:
            return None
        peer, _ = entry
        return peer.offset if is_clock_off(peer.offset) else None

    def other_addresses(self, session: ISession) -> list[str]:
        """The other addresses at which the identifier of the peer of a session was seen."""
        entry = self._by_session.get(session)
        if entry is None:
            return []
        peer, _ = entry
        others = {peer.address, *peer.others} - {session.remote_address} if peer.others else set()
        return sorted(others)

    def notices(self, message: MessageIdentifier) -> Iterator[AppendEvent]:
        """The events of C{msmq explain} about the queue manager that sent a message."""
        peer = self._peers.get(message.queue_manager)
        if peer is None:
            return
        identity = message.to_bytes()
        for address, time in peer.others.items():
            text = f"its queue manager, known at {peer.address}, was at {address} too: a cloned machine?"
            yield AppendEvent(time, identity, "cloned", text)
        if peer.offset_time is not None:
            yield AppendEvent(peer.offset_time, identity, "clock_skew", _offset_text(peer.worst))


def _offset_text(offset: int) -> str:
    if offset > 0:
        return f"its clock is ahead of ours by {timedelta(seconds=offset)}"
    return (
        f"its messages were sent {timedelta(seconds=-offset)} ago by its clock, which is behind ours, "
        "unless they were delayed"
    )
