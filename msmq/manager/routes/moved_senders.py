"""Confirms the new address of a sender for its OrderAcks and FinalAcks (reading 60)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar, Final
from uuid import UUID

from twisted.logger import Logger

from msmq.interfaces.routing import IRouter
from msmq.interfaces.session import ISession, RoutedHop
from msmq.manager.peers.peer_table import Peers
from msmq.manager.routes.next_hop import NextHop
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.queues.outgoing import OutgoingQueue
from msmq.transfer.decisions.next_hop_decision import MovedSenderFacts, is_moved_sender, is_wait_reported
from msmq.wire.addresses import read_address
from msmq.wire.guid import braced

MOST_NAMED: Final = 4
"""Limit on senders named in one report."""


class MovedSenders:
    """Decides whether a session at another address leads to the sender of a message.

    Stated identifiers are not authenticated, so one of these has to confirm it:

      - the directory: this queue manager has dialled the computer that the directory names, or the session
        is with the address that the directory names;
      - where the directory names no address, the configuration: the address of the session is trusted
        (L{TrustedPeers.is_trusted}), and the address from which the message came was dialled without success.

    @param router: has the topology of the directory; C{None} in workgroup mode.
    @param trusted_peers: the addresses that are trusted.
    @param report: appends an event of the queue manager itself: its name, the reason, the queue.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        peers: Peers,
        router: IRouter | None,
        trusted_peers: TrustedPeers,
        report: Callable[[str, str, str], None],
    ) -> None:
        self._peers = peers
        self._router = router
        self._trusted_peers = trusted_peers
        self._report = report

    def session(self, source: UUID, *, is_unanswered: bool) -> ISession | None:
        """An open session that is confirmed to lead to this queue manager; C{None} if there is none.

        @param is_unanswered: whether the address from which its messages came was dialled without success.
        """
        sessions = self._peers.sessions(source)
        return next(
            (each for each in sessions if self.leads(each, source, is_unanswered=is_unanswered)), None
        )

    def leads(self, session: ISession, source: UUID, *, is_unanswered: bool) -> bool:
        """Whether a session is confirmed to lead to this queue manager, at any address."""
        machine = None if self._router is None else self._router.topology.queue_manager(source)
        hop = session.dialled_for
        return is_moved_sender(
            MovedSenderFacts(
                is_stated=session.remote_identifier == source,
                is_listed=machine is not None,
                is_dialled=isinstance(hop, NextHop)
                and any(routed.identifier == source for routed in hop.routed),
                is_named=_is_at(session, machine.address)
                if machine is not None and machine.address
                else None,
                is_unanswered=is_unanswered,
                is_trusted=self._trusted_peers.is_trusted(session.remote_address),
            )
        )

    def hop(self, source: UUID) -> RoutedHop | None:
        """The next hop of a queue manager by its address in the directory; C{None} if unknown."""
        machine = None if self._router is None else self._router.topology.queue_manager(source)
        if machine is None:
            return None
        return RoutedHop(source, machine.qualified_computer_name or machine.name)

    def report(self, hop: NextHop, queue: OutgoingQueue, sources: Iterable[UUID], now: float) -> None:
        """Report once that acknowledgements wait for an address that does not answer.

        It is reported again for other senders, or after the address has answered.

        @param sources: the senders without a confirmed session.
        @param now: seconds since 1970-01-01 UTC.
        """
        waiting = frozenset(sources)
        since = self._to_report(hop, queue, waiting, now)
        if since is not None:
            self._record(
                queue,
                f"{queue.message_count} acknowledgements for queue manager {_named(waiting)} wait for "
                f"{hop.key}, which has not answered since {since}: if its address has changed, "
                f"{self._advice(sorted(waiting, key=str)[:MOST_NAMED])}",
            )

    def report_requested(
        self, hop: NextHop, queue: OutgoingQueue, requested: Mapping[UUID, int], now: float
    ) -> None:
        """Report once that administration acknowledgements wait for an address that does not answer.

        Their queue was chosen by the application that requested them, and its address may be that of any
        computer: they are sent to another address only if an operator redirects them.

        @param requested: their number, by the queue manager that requested them.
        @param now: seconds since 1970-01-01 UTC.
        """
        waiting = frozenset(requested)
        since = self._to_report(hop, queue, waiting, now)
        if since is not None:
            self._record(
                queue,
                f"{sum(requested.values())} administration acknowledgements that queue manager "
                f"{_named(waiting)} requested wait for {hop.key}, which has not answered since {since}: if "
                f"its address has changed, use msmq outgoing redirect '{queue.destination}' --to ADDRESS",
            )

    def _to_report(
        self, hop: NextHop, queue: OutgoingQueue, waiting: frozenset[UUID], now: float
    ) -> str | None:
        """The time since which an address has not answered, if that is to be reported now."""
        since = hop.unanswered_since
        unanswered_for = None if since is None else now - since
        if since is None or not is_wait_reported(
            unanswered_for, waiting, hop.reported.get(queue, frozenset())
        ):
            return None
        hop.reported[queue] = waiting
        return datetime.fromtimestamp(since, UTC).isoformat(timespec="seconds")

    def _record(self, queue: OutgoingQueue, reason: str) -> None:
        self._report("acknowledgements_wait", reason, str(queue.destination))
        self.log.warn("{reason}", reason=reason)

    def _advice(self, sources: Sequence[UUID]) -> str:
        seen = {session.remote_address for source in sources for session in self._peers.sessions(source)}
        there = f"; its identifier is stated at {', '.join(sorted(seen)[:MOST_NAMED])}" if seen else ""
        return (
            "list the new one under [security] peers or the queue manager in the directory, or use msmq "
            f"outgoing redirect{there}"
        )


def _is_at(session: ISession, address: str) -> bool:
    named = read_address(address)
    return named is not None and named == read_address(session.remote_address)


def _named(senders: Collection[UUID]) -> str:
    named = sorted(senders, key=str)[:MOST_NAMED]
    more = len(senders) - len(named)
    return ", ".join(map(braced, named)) + (f" and {more} more" if more else "")
