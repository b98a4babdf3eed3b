"""Acknowledgements that wait for an address that does not answer: their senders, and reports (reading 60)."""

from __future__ import annotations

from collections import Counter
from typing import Final

from msmq.manager.peers.ack_sessions import EXAMINED_MESSAGES, AckSessions
from msmq.manager.routes.moved_senders import MovedSenders
from msmq.manager.routes.next_hop import NextHop
from msmq.manager.routes.next_hops import NextHops
from msmq.queues.queue import MessagePosition
from msmq.transfer.decisions.outgoing_states import STILL

READ_AT_ONCE: Final = 1000
"""Acknowledgements that are read together to learn their addressees."""


class WaitingAcknowledgements:
    """Looks through the queues of a next hop that was dialled without success.

    @param moved: know senders at other addresses, and report what waits.
    @param trusts: C{trust_identifiers}: an identifier is trusted at any address, so no look-up is made.
    """

    def __init__(self, hops: NextHops, acks: AckSessions, moved: MovedSenders, *, trusts: bool) -> None:
        self._hops = hops
        self._acks = acks
        self._moved = moved
        self._trusts = trusts

    def unread(self, hop: NextHop) -> list[MessagePosition]:
        """Acknowledgements for an address whose senders are not known.

        Of administration acknowledgements only those for one that does not answer.
        """
        if not isinstance(hop.key, str):
            return []
        queues = self._hops.busy(hop)
        requested = [
            position
            for queue in queues
            if _is_unanswered(hop) and not self._hops.is_divided(queue)
            for position in self._acks.unread(queue)
        ]
        if requested:
            return requested[:READ_AT_ONCE]
        divided = [queue for queue in queues if self._hops.is_divided(queue)]
        unknown = [
            position
            for queue in divided
            for position in queue.peek(READ_AT_ONCE)
            if self._acks.is_unknown(position)
        ]
        if not unknown:
            # Those for an absent peer do not hide the ones that follow.
            unknown = [
                position for queue in divided for position in self._acks.next_unknown(queue, READ_AT_ONCE)
            ]
        return unknown[:READ_AT_ONCE]

    def report_requested(self, hop: NextHop, now: float) -> None:
        """Report administration acknowledgements that wait for an address that does not answer.

        @param now: seconds since 1970-01-01 UTC.
        """
        if not _is_unanswered(hop):
            return
        for queue in self._hops.busy(hop):
            if not self._hops.is_divided(queue) and queue.state not in STILL:
                requesters = map(self._acks.requester, queue.peek(EXAMINED_MESSAGES))
                counts = Counter(requester for requester in requesters if requester is not None)
                self._moved.report_requested(hop, queue, counts, now)

    def seek_senders(self, hop: NextHop, now: float) -> list[NextHop]:
        """Look up in the directory the senders whose acknowledgements wait for an unreachable address.

        Acknowledgements for a sender that the directory does not know are reported.

        @param now: seconds since 1970-01-01 UTC.
        @return: the next hops to dial.
        """
        if not _is_unanswered(hop) or self._trusts:
            return []
        found: dict[NextHop, None] = {}
        for queue in self._hops.busy(hop):
            if not self._hops.is_divided(queue) or queue.state in STILL:
                continue
            lost = set()
            for position in queue.peek(EXAMINED_MESSAGES):
                source = self._acks.source(position)
                if source is None or self._hops.acknowledgement_session(hop, position) is not None:
                    continue
                routed = self._moved.hop(source)
                if routed is None:
                    lost.add(source)
                else:
                    found[self._hops.elsewhere(queue, source, routed)] = None
            self._moved.report(hop, queue, lost, now)
        return list(found)


def _is_unanswered(hop: NextHop) -> bool:
    """Whether a host was dialled without success, and has not answered since."""
    return hop.unanswered_since is not None and isinstance(hop.key, str)
