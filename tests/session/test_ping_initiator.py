"""[MS-MQQB] 3.1.7.6 to 3.1.7.9: the initiator's side of ping."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.moment import Moment
from msmq.session.ping_initiator import (
    PING_MACHINE,
    PingEnded,
    PingInitiator,
    PingInputs,
    PingRequest,
    canonical_host,
)
from msmq.settings import SessionSettings
from msmq.structures.internal.ping import Ping
from tests.vectors import ACCEPTOR as THEIRS
from tests.vectors import INITIATOR as OURS
from tests.vectors import vector

HOST = "10.0.0.9"
START = Moment(100.0, 1_700_000_000.0)


def at(seconds: float) -> Moment:
    return START.later(seconds)


def response(cookie: int, *, is_refused: bool = False) -> bytes:
    return Ping(cookie, THEIRS, is_workstation=True, is_refused=is_refused).to_bytes()


def initiator(*, ping_cookie: int = 0, is_server: bool = False) -> PingInitiator:
    return PingInitiator(OURS, SessionSettings(is_server=is_server), ping_cookie=ping_cookie)


class RequestTests(SynchronousTestCase):
    """Requests of an initiator."""

    def test_request_is_the_packet_of_the_documents(self) -> None:
        """MQQB-2.2.7-06: flags, signature, cookie and own GUID, byte for byte."""
        request = initiator(ping_cookie=3).ask(HOST, START)
        self.assertEqual(request.datagram.hex(), "0100485504000000" + OURS.bytes_le.hex())
        self.assertEqual(request.host, HOST)

    def test_request_differs_from_the_captured_one_in_unused_bits_only(self) -> None:
        """MQQB-2.2.7-01: frame 1 of the worked example has garbage in the bits that mean nothing."""
        captured = vector("mqqb-4.1.1-ping-request")
        request = initiator(ping_cookie=3).ask(HOST, START)
        self.assertEqual(request.datagram[1:2], b"\0")
        self.assertEqual(captured[:1] + b"\0" + captured[2:], request.datagram)

    def test_first_cookie_is_one_and_each_request_adds_one(self) -> None:
        """MQQB-3.1.7.6-01: PingCookie starts at 0 and grows by 1 before each request, to anyone.

        MQQB-3.1.1.3-13.
        """
        pings = initiator()
        cookies = [
            Ping.from_bytes(pings.ask(host, START).datagram).cookie for host in (HOST, HOST, "10.0.0.10")
        ]
        self.assertEqual(cookies, [1, 2, 3])

    def test_cookie_wraps(self) -> None:
        """2.2.7: the cookie has 32 bits; after the last comes 0, which is answered like any other."""
        pings = initiator(ping_cookie=0xFFFFFFFF)
        self.assertEqual(pings.ask(HOST, START).cookie, 0)
        self.assertIsNotNone(pings.receive(response(0), HOST, at(0.1)))

    def test_only_a_server_clears_rc(self) -> None:
        """MQQB-2.2.7-02: RC is 1 unless this queue manager claims a server-class system."""
        workstation = Ping.from_bytes(initiator().ask(HOST, START).datagram)
        server = Ping.from_bytes(initiator(is_server=True).ask(HOST, START).datagram)
        self.assertTrue(workstation.is_workstation)
        self.assertFalse(server.is_workstation)

    def test_request_never_refuses(self) -> None:
        """2.2.7: an initiator clears RF."""
        self.assertFalse(Ping.from_bytes(initiator().ask(HOST, START).datagram).is_refused)

    def test_name_cannot_be_asked(self) -> None:
        """A host name is resolved before anyone is asked."""
        self.assertRaises(LocalProtocolError, initiator().ask, "beta.example", START)


class WaitingTests(SynchronousTestCase):
    """How Send Ping Request ends."""

    def test_three_outcomes(self) -> None:
        """MQQB-3.1.1.1.1.9-01 MQQB-3.1.7.6-04: silence is FALSE, RF=0 is TRUE, RF=1 is FALSE."""
        pings = initiator()
        pings.ask(HOST, START)
        [silent] = pings.expire(at(1.0))
        accepted = pings.ask(HOST, START)
        willing = pings.receive(response(accepted.cookie), HOST, START)
        refused = pings.ask(HOST, START)
        unwilling = pings.receive(response(refused.cookie, is_refused=True), HOST, START)
        assert willing is not None and unwilling is not None
        self.assertEqual([silent.status, willing.status, unwilling.status], [False, True, False])

    def test_timer_is_exactly_one_second(self) -> None:
        """MQQB-3.1.6.8-01 MQQB-3.1.2.9-01: still waiting at +0.999 s, FALSE at +1.000 s."""
        pings = initiator()
        request = pings.ask(HOST, START)
        self.assertEqual(pings.deadline(), START.monotonic + 1.0)
        self.assertEqual(pings.expire(at(0.999)), [])
        self.assertEqual(pings.expire(at(1.0)), [PingEnded(request.cookie, HOST, False, None, 1.0)])
        self.assertIsNone(pings.deadline())

    def test_another_timer(self) -> None:
        """It applies to later requests, and requests that wait keep theirs."""
        pings = initiator()
        pings.ask(HOST, START)
        pings.configure(SessionSettings(ping_response=5.0, is_server=True))
        later = pings.ask(HOST, START)
        self.assertEqual(later.deadline, START.monotonic + 5.0)
        self.assertFalse(Ping.from_bytes(later.datagram).is_workstation)
        self.assertEqual(len(pings.expire(at(4.9))), 1)
        self.assertEqual(len(pings.expire(at(5.0))), 1)

    def test_refusal_returns_at_once_and_stops_the_timer(self) -> None:
        """MQQB-3.1.7.6-04: RF=1 is FALSE at once; RF=0 would be TRUE; the timer is cancelled by either."""
        for is_refused in (True, False):
            pings = initiator()
            pings.ask(HOST, START)
            ended = pings.receive(response(1, is_refused=is_refused), HOST, at(0.25))
            answer = Ping.from_bytes(response(1, is_refused=is_refused))
            self.assertEqual(ended, PingEnded(1, HOST, not is_refused, answer, 0.25))
            self.assertIsNone(pings.deadline())
            self.assertEqual(pings.expire(at(1.0)), [])

    def test_matching_response_ends_the_wait_when_it_comes(self) -> None:
        """MQQB-3.1.7.9-01: a response at +0.2 s ends the wait at +0.2 s, with its sender."""
        pings = initiator()
        pings.ask(HOST, START)
        ended = pings.receive(response(1), HOST, at(0.2))
        assert ended is not None and ended.response is not None
        self.assertAlmostEqual(ended.seconds, 0.2)
        self.assertEqual(ended.response.qm_guid, THEIRS)

    def test_captured_response_is_understood(self) -> None:
        """MQQB-2.2.7-05: frame 2 of the worked example has 0xB295 for its flags, which means RC=1, RF=0."""
        pings = initiator(ping_cookie=3)
        pings.ask(HOST, START)
        ended = pings.receive(vector("mqqb-4.1.2-ping-response"), HOST, START)
        assert ended is not None and ended.response is not None
        self.assertTrue(ended.status)
        self.assertTrue(ended.response.is_workstation)
        self.assertFalse(ended.response.is_refused)

    def test_overlapping_requests_have_timers_of_their_own(self) -> None:
        """MQQB-3.1.7.6-03: two requests, half a second apart, end half a second apart."""
        pings = initiator()
        pings.ask(HOST, START)
        pings.ask("10.0.0.10", at(0.5))
        self.assertEqual(pings.deadline(), START.monotonic + 1.0)
        self.assertEqual([end.cookie for end in pings.expire(at(1.0))], [1])
        self.assertEqual(pings.deadline(), START.monotonic + 1.5)
        self.assertEqual(pings.expire(at(1.499)), [])
        self.assertEqual([end.cookie for end in pings.expire(at(1.5))], [2])

    def test_requests_due_together_end_in_the_order_of_asking(self) -> None:
        """One late look at the clock ends all that is due."""
        pings = initiator()
        for _ in range(3):
            pings.ask(HOST, START)
        self.assertEqual([end.cookie for end in pings.expire(at(9.0))], [1, 2, 3])

    def test_abandoned_request_neither_ends_nor_keeps_a_timer(self) -> None:
        """A caller that has cancelled gets no result; the late response is ignored."""
        pings = initiator()
        request = pings.ask(HOST, START)
        pings.abandon(request.cookie)
        pings.abandon(request.cookie)
        self.assertIsNone(pings.deadline())
        self.assertIsNone(pings.receive(response(request.cookie), HOST, START))


class IgnoringTests(SynchronousTestCase):
    """Datagrams other than a response to the newest request change nothing."""

    def assert_still_waiting(self, pings: PingInitiator) -> None:
        self.assertEqual(pings.deadline(), START.monotonic + 1.0)

    def test_bad_responses_are_ignored(self) -> None:
        """MQQB-3.1.7.8-01: another signature or cookie is ignored and the timer runs on.

        So is a good response without a waiting request; the matching one ends the wait.
        """
        pings = initiator(ping_cookie=6)
        self.assertIsNone(pings.receive(response(6), HOST, START))
        pings.ask(HOST, START)
        bad_signature = response(7)[:2] + b"\x49\x55" + response(7)[4:]
        for datagram in (bad_signature, response(6), response(8)):
            self.assertIsNone(pings.receive(datagram, HOST, at(0.1)))
            self.assert_still_waiting(pings)
        self.assertIsNotNone(pings.receive(response(7), HOST, at(0.1)))
        self.assertIsNone(pings.receive(response(7), HOST, at(0.1)))

    def test_response_to_an_overtaken_request_is_disregarded(self) -> None:
        """Only the newest request can be answered; an earlier one waits for its own timer.

        MQQB-2.2.7-09, MQQB-3.1.7.8-01.
        """
        pings = initiator()
        pings.ask(HOST, START)
        pings.ask("10.0.0.10", START)
        self.assertIsNone(pings.receive(response(1), HOST, at(0.1)))
        self.assertIsNotNone(pings.receive(response(2), "10.0.0.10", at(0.1)))
        self.assertEqual([end.cookie for end in pings.expire(at(1.0))], [1])

    def test_response_from_another_address_is_ignored(self) -> None:
        """Only the host that was asked can answer."""
        pings = initiator()
        pings.ask(HOST, START)
        self.assertIsNone(pings.receive(response(1), "10.0.0.10", START))
        self.assert_still_waiting(pings)

    def test_spelling_of_an_address_does_not_matter(self) -> None:
        """IPv6 addresses have many spellings; a socket may use another one than the caller."""
        pings = initiator()
        pings.ask("2001:DB8:0:0::1", START)
        self.assertIsNotNone(pings.receive(response(1), "2001:db8::1", START))

    def test_link_local_address(self) -> None:
        """Its scope says from which interface a request leaves; a socket gives the source without it."""
        for source in ("fe80::1", "fe80::1%2", "FE80::1%eth0"):
            pings = initiator()
            request = pings.ask("fe80::1%eth0", START)
            self.assertEqual(request.host, "fe80::1%eth0")
            self.assertIsNone(pings.receive(response(1), "fe80::2", START))
            self.assertIsNotNone(pings.receive(response(1), source, START))

    def test_ipv4_address_of_a_socket_for_both_families_is_the_ipv4_address(self) -> None:
        """C{::ffff:10.0.0.9} is how such a socket spells 10.0.0.9."""
        self.assertEqual(canonical_host("::ffff:10.0.0.9"), "10.0.0.9")

    def test_every_other_length_is_ignored(self) -> None:
        """2.2.7: the packet has 24 bytes; each prefix of it, and one byte more, is ignored."""
        pings = initiator()
        pings.ask(HOST, START)
        whole = response(1)
        for datagram in [*(whole[:size] for size in range(24)), whole + b"\0"]:
            self.assertIsNone(pings.receive(datagram, HOST, START))
        self.assertIsNotNone(pings.receive(whole, HOST, START))

    @given(st.binary(max_size=64))
    def test_any_datagram_is_survived(self, datagram: bytes) -> None:
        """After any datagram the wait continues or ends; nothing raises."""
        pings = initiator()
        pings.ask(HOST, START)
        pings.receive(datagram, HOST, START)


class MachineTests(SynchronousTestCase):
    """Figure 11 as a machine."""

    def test_every_input_has_an_answer_in_every_state(self) -> None:
        """No order of responses, timers and second thoughts is an error."""
        answer = Ping(1, THEIRS)
        ways: list[list[str]] = [
            [],
            ["send"],
            ["send", "accept"],
            ["send", "refuse"],
            ["send", "timer"],
            ["abandon"],
        ]
        for way in ways:
            for final in ("send", "accept", "refuse", "timer", "abandon"):
                machine = PING_MACHINE(PingRequest(1, HOST, b"", 0.0, 1.0))
                for name in [*way, final]:
                    _give(machine, name, answer)

    def test_the_first_end_counts(self) -> None:
        """A response after the timer, or a timer after the response, changes nothing."""
        request = PingRequest(1, HOST, b"", START.monotonic, START.monotonic + 1.0)
        machine = PING_MACHINE(request)
        machine.send_ping_request()
        machine.ping_response_timer(at(1.0))
        machine.accepting_response(Ping(1, THEIRS), at(1.1))
        self.assertEqual(request.ended, PingEnded(1, HOST, False, None, 1.0))

    def test_nothing_ends_before_it_is_sent(self) -> None:
        """A request that was never sent has no outcome."""
        request = PingRequest(1, HOST, b"", START.monotonic, START.monotonic + 1.0)
        machine = PING_MACHINE(request)
        machine.accepting_response(Ping(1, THEIRS), START)
        self.assertIsNone(request.ended)


def _give(machine: PingInputs, name: str, answer: Ping) -> None:
    match name:
        case "send":
            machine.send_ping_request()
        case "accept":
            machine.accepting_response(answer, START)
        case "refuse":
            machine.refusing_response(answer, START)
        case "timer":
            machine.ping_response_timer(START)
        case _:
            machine.abandon()


@attrs.define
class _Asked:
    host: str
    deadline: float


class AnyOrder(RuleBasedStateMachine):
    """Requests, responses, time and second thoughts in any order, against a model of the rule."""

    def __init__(self) -> None:
        super().__init__()
        self.pings = initiator()
        self.now = START
        self.newest = 0
        self.model: dict[int, _Asked] = {}

    @rule(host=st.sampled_from([HOST, "10.0.0.10"]))
    def ask(self, host: str) -> None:
        request = self.pings.ask(host, self.now)
        self.newest += 1
        assert request.cookie == self.newest
        self.model[self.newest] = _Asked(host, self.now.monotonic + 1.0)

    @rule(age=st.integers(0, 2), host=st.sampled_from([HOST, "10.0.0.10"]), is_refused=st.booleans())
    def hear(self, age: int, host: str, is_refused: bool) -> None:
        cookie = max(0, self.newest - age)
        ended = self.pings.receive(response(cookie, is_refused=is_refused), host, self.now)
        asked = self.model.get(cookie)
        if age == 0 and asked is not None and asked.host == host:
            assert ended is not None and ended.status is not is_refused
            del self.model[cookie]
        else:
            assert ended is None

    @rule(seconds=st.sampled_from([0.0, 0.25, 0.5, 1.0]))
    def wait(self, seconds: float) -> None:
        self.now = self.now.later(seconds)
        ended = [end.cookie for end in self.pings.expire(self.now)]
        due = [cookie for cookie, asked in self.model.items() if asked.deadline <= self.now.monotonic]
        assert ended == due
        for cookie in due:
            del self.model[cookie]

    @rule(age=st.integers(0, 2))
    def abandon(self, age: int) -> None:
        self.pings.abandon(self.newest - age)
        self.model.pop(self.newest - age, None)

    @invariant()
    def deadline_is_the_earliest(self) -> None:
        expected = min((asked.deadline for asked in self.model.values()), default=None)
        assert self.pings.deadline() == expected


AnyOrderTests = AnyOrder.TestCase
