"""Pings and directory discovery, on both sides."""

from __future__ import annotations

from uuid import UUID

from msmq.discovery.packets import TopologyClientRequest, TopologyServerReply, read_topology_packet
from msmq.discovery.server import DiscoveryServer, Unanswered
from msmq.moment import Moment
from msmq.session.ping_responder import REPEATS_ANSWERED, SILENCE, Ignored, PingResponder
from msmq.settings import SessionSettings
from msmq.structures.internal.ping import Ping
from tests.fuzz.finding import accepted, expect, written

ALPHA = UUID(int=7)
NOW = Moment(100.0, 1_700_000_000.0)


def datagrams(data: bytes) -> None:
    """Each is answered, or ignored with a reason; an answer is never longer than the documents say."""
    request = accepted(Ping.from_bytes, data)
    responder = PingResponder(ALPHA, SessionSettings())
    answer = responder.answer(data, "127.0.0.9", 4000, NOW)
    if isinstance(answer, Ignored):
        expect(request is None or request.is_refused, "a request is answered")
    else:
        reply = answer.response.to_bytes()
        expect(len(reply) <= len(data), "a ping is not amplified")
        expect(Ping.from_bytes(reply) == answer.response, "a response comes back")
    if request is not None and not request.is_refused and request.cookie & 31 == 7:
        _flood(responder, data)
    for is_ipx in (False, True):
        server = DiscoveryServer(
            ALPHA, UUID(int=8), "BETA", directory_servers=["DC"], connected_networks=[ALPHA]
        )
        outcome = server.answer(data, is_ipx=is_ipx)
        if not isinstance(outcome, Unanswered):
            TopologyServerReply.from_bytes(outcome)
    for read in (
        TopologyClientRequest.from_bytes,
        TopologyServerReply.from_bytes,
        lambda datagram: TopologyClientRequest.from_bytes(datagram, is_ipx=True),
    ):
        value = accepted(read, data)
        again = None if value is None else written(value.to_bytes)
        expect(again is None or accepted(read, again) == value, "a topology packet comes back")
    accepted(read_topology_packet, data)


def _flood(responder: PingResponder, data: bytes) -> None:
    """One cookie, again and again, and any number from everywhere."""
    answered = sum(
        not isinstance(responder.answer(data, "127.0.0.9", 4000, NOW), Ignored)
        for _ in range(REPEATS_ANSWERED + 2)
    )
    expect(answered <= REPEATS_ANSWERED, "a loop comes to its end")
    answers = [responder.answer(data, f"10.0.0.{host}", 4000, NOW) for host in range(120)]
    answered += sum(not isinstance(answer, Ignored) for answer in answers)
    expect(answered <= SessionSettings().pings_per_second, "no more are answered than may be")
    later = NOW.later(SILENCE + 1)
    expect(not isinstance(responder.answer(data, "127.0.0.9", 4000, later), Ignored), "silence forgives")
