"""[MS-MQQB] 3.1.7.7: the acceptor's side of ping, and how many requests it answers."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.moment import Moment
from msmq.session.ping_responder import (
    COOKIES_REMEMBERED,
    REPEATS_ANSWERED,
    SILENCE,
    SOURCES_REMEMBERED,
    Ignored,
    PingAnswer,
    PingResponder,
)
from msmq.settings import SessionSettings
from msmq.structures.internal.ping import Ping
from tests.vectors import ACCEPTOR as OURS
from tests.vectors import INITIATOR as THEIRS
from tests.vectors import vector

HOST, PORT = "10.0.0.9", 4057
START = Moment(100.0, 1_700_000_000.0)


def request(cookie: int = 4, *, is_workstation: bool = True) -> bytes:
    return Ping(cookie, THEIRS, is_workstation=is_workstation).to_bytes()


def responder(pings_per_second: int = 100, identifier: UUID = OURS) -> PingResponder:
    return PingResponder(identifier, SessionSettings(pings_per_second=pings_per_second))


class AnswerTests(SynchronousTestCase):
    """Responses to a request."""

    def answer(self, datagram: bytes, *, refuses: bool = False) -> Ping:
        outcome = responder().answer(datagram, HOST, PORT, START, refuses=refuses)
        assert isinstance(outcome, PingAnswer)
        return outcome.response

    def test_response_is_the_packet_of_the_documents(self) -> None:
        """MQQB-3.1.7.7-02 MQQB-2.2.7-10: RC and cookie are copied, the signature and own GUID are set."""
        response = self.answer(request(4))
        self.assertEqual(response.to_bytes().hex(), "0100485504000000" + OURS.bytes_le.hex())

    def test_captured_request_gets_the_captured_response(self) -> None:
        """4.1.1, 4.1.2: our answer to frame 1 is frame 2 but for the unused bits, in both packets garbage."""
        captured = vector("mqqb-4.1.2-ping-response")
        response = self.answer(vector("mqqb-4.1.1-ping-request")).to_bytes()
        self.assertEqual(response[:2], b"\x01\x00")
        self.assertEqual(response[2:], captured[2:])

    def test_rc_is_copied(self) -> None:
        """MQQB-2.2.7-03: RC=1 in, 1 out; 0 in, 0 out."""
        self.assertTrue(self.answer(request(is_workstation=True)).is_workstation)
        self.assertFalse(self.answer(request(is_workstation=False)).is_workstation)

    def test_cookie_is_copied(self) -> None:
        """MQQB-2.2.7-08: any cookie of the request is repeated."""
        for cookie in (0, 4, 0xFFFFFFFF):
            self.assertEqual(self.answer(request(cookie)).cookie, cookie)

    def test_rf_says_whether_a_session_would_be_refused(self) -> None:
        """MQQB-3.1.7.7-02: RF is 1 if a session would be refused now, else 0."""
        self.assertTrue(self.answer(request(), refuses=True).is_refused)
        self.assertFalse(self.answer(request(), refuses=False).is_refused)

    def test_acceptance_is_asked_for_each_answer_and_for_nothing_else(self) -> None:
        """The answer holds for now; a datagram that gets none costs no decision."""
        asked: list[None] = []

        def refuses() -> bool:
            asked.append(None)
            return len(asked) > 1

        pings = responder()
        for datagram, refused in ((request(1), False), (b"", None), (request(2), True)):
            outcome = pings.answer(datagram, HOST, PORT, START, refuses=refuses)
            if isinstance(outcome, PingAnswer):
                self.assertEqual(outcome.response.is_refused, refused)
        self.assertEqual(len(asked), 2)

    def test_requests_to_ourselves_are_answered(self) -> None:
        """A queue manager may ask its own address."""
        own = Ping(1, OURS).to_bytes()
        self.assertIsInstance(responder().answer(own, HOST, PORT, START), PingAnswer)


class IgnoredTests(SynchronousTestCase):
    """Datagrams without a response."""

    def ignored(self, datagram: bytes, host: str = HOST, port: int = PORT) -> Ignored:
        pings = responder()
        outcome = pings.answer(datagram, host, port, START)
        assert isinstance(outcome, Ignored)
        self.assertEqual((pings.answered, pings.ignored), (0, {outcome: 1}))
        return outcome

    def test_another_signature(self) -> None:
        """2.2.7, 3.1.7.7: 0x5549 is not a ping."""
        datagram = request()[:2] + b"\x49\x55" + request()[4:]
        self.assertIs(self.ignored(datagram), Ignored.MALFORMED)

    def test_another_length(self) -> None:
        """2.2.7: every strict prefix, and one byte too many."""
        for datagram in [*(request()[:size] for size in range(24)), request() + b"\0"]:
            self.assertIs(self.ignored(datagram), Ignored.MALFORMED)

    def test_response(self) -> None:
        """2.2.7: an initiator clears RF, so what has it set is a response, and these are not answered."""
        self.assertIs(self.ignored(Ping(4, THEIRS, is_refused=True).to_bytes()), Ignored.RESPONSE)

    def test_source_that_cannot_be_answered(self) -> None:
        """A forged source of port 0, a group or no address at all would only make an error."""
        for host, port in ((HOST, 0), ("224.0.0.1", PORT), ("0.0.0.0", PORT), ("ff02::1", PORT), ("", PORT)):
            self.assertIs(self.ignored(request(), host, port), Ignored.NO_RETURN_ADDRESS)

    @given(st.binary(max_size=64), st.text(max_size=8), st.integers(0, 65535))
    def test_any_datagram_is_survived(self, datagram: bytes, host: str, port: int) -> None:
        """Any datagram from any address is answered or ignored; nothing raises."""
        responder().answer(datagram, host, port, START)


class RateTests(SynchronousTestCase):
    """How many requests are answered."""

    def count(self, pings: PingResponder, hosts: list[str], now: Moment, first_cookie: int = 0) -> int:
        before = pings.answered
        for number, host in enumerate(hosts, first_cookie):
            pings.answer(request(number), host, PORT, now)
        return pings.answered - before

    def test_so_many_in_a_second_over_all(self) -> None:
        """Thirty hosts ask at once; ten are answered, and ten more a second later."""
        pings = responder(10)
        hosts = [f"10.0.0.{number}" for number in range(1, 31)]
        self.assertEqual(self.count(pings, hosts, START), 10)
        self.assertEqual(pings.ignored, {Ignored.RATE: 20})
        self.assertEqual(self.count(pings, hosts, START.later(1.0)), 10)

    def test_one_host_gets_half(self) -> None:
        """A host that asks too often is held to half; the other half remains for the rest."""
        pings = responder(10)
        self.assertEqual(self.count(pings, [HOST] * 30, START), 5)
        self.assertEqual(pings.ignored, {Ignored.SOURCE_RATE: 25})
        self.assertEqual(self.count(pings, ["10.0.0.10"] * 30, START), 5)

    def test_a_network_of_ipv6_is_one_host(self) -> None:
        """A host does not get more by asking from many addresses of its network."""
        pings = responder(10)
        self.assertEqual(self.count(pings, [f"2001:db8::{number:x}" for number in range(30)], START), 5)
        self.assertEqual(self.count(pings, ["2001:db8:0:1::1"] * 30, START), 5)

    def test_ports_of_one_host_share_its_rate(self) -> None:
        """A host does not get more by asking from many ports."""
        pings = responder(10)
        for port in range(1024, 1054):
            pings.answer(request(), HOST, port, START)
        self.assertEqual(pings.answered, 5)

    def test_tokens_return_with_time(self) -> None:
        """After the burst, one request each fifth of a second is within a rate of five."""
        pings = responder(10)
        self.count(pings, [HOST] * 30, START)
        self.assertEqual(self.count(pings, [HOST] * 3, START.later(0.25), 100), 1)

    def test_quiet_time_saves_up_one_second_only(self) -> None:
        """An hour of silence allows no greater burst."""
        pings = responder(10)
        self.count(pings, [HOST], START)
        self.assertEqual(self.count(pings, [HOST] * 30, START.later(3600.0), 100), 5)

    def test_none_are_answered_at_a_rate_of_zero(self) -> None:
        """At a rate of zero no ping is answered."""
        self.assertEqual(self.count(responder(0), [HOST] * 3, START), 0)

    def test_one_is_answered_at_a_rate_of_one(self) -> None:
        """The half of one is still one."""
        self.assertEqual(self.count(responder(1), [HOST] * 3, START), 1)

    def test_half_of_a_small_rate(self) -> None:
        """It is rounded down, and is at least one."""
        for rate, of_one_host in ((1, 1), (2, 1), (3, 1), (4, 2), (5, 2)):
            self.assertEqual(self.count(responder(rate), [HOST] * 9, START), of_one_host, rate)

    def test_another_rate(self) -> None:
        """It applies at once to hosts that are known as well, which begin with a full second of it."""
        pings = responder(20)
        self.assertEqual(self.count(pings, [HOST] * 30, START), 10)
        pings.configure(SessionSettings(pings_per_second=4))
        self.assertEqual(self.count(pings, [HOST] * 30, START, 100), 2)
        self.assertEqual(self.count(pings, ["10.0.0.10"] * 30, START, 200), 2)
        self.assertEqual(self.count(pings, ["10.0.0.11"] * 30, START, 300), 0)

    def test_the_oldest_source_is_forgotten_first(self) -> None:
        """The last C{SOURCES_REMEMBERED} hosts have their rates, counted by when each asked last."""
        pings = responder(2)
        other = "10.0.0.10"
        others = [f"10.1.{number >> 8}.{number & 255}" for number in range(SOURCES_REMEMBERED - 2)]
        self.count(pings, [HOST, other, *others], START)
        self.assertIs(pings.answer(request(9), HOST, PORT, START), Ignored.SOURCE_RATE)
        self.assertIs(pings.answer(request(9), "10.0.0.11", PORT, START), Ignored.RATE)
        self.assertIs(pings.answer(request(9), HOST, PORT, START), Ignored.SOURCE_RATE)
        self.assertIs(pings.answer(request(9), other, PORT, START), Ignored.RATE)

    def test_the_oldest_cookie_is_forgotten_first(self) -> None:
        """The last C{COOKIES_REMEMBERED} are counted, by when each came last."""
        pings = responder(100_000)
        for cookie in (1, 2):
            for _ in range(REPEATS_ANSWERED):
                self.assertIsInstance(pings.answer(request(cookie), HOST, PORT, START), PingAnswer)
        self.count(pings, [HOST] * (COOKIES_REMEMBERED - 2), START, 3)
        self.assertIs(pings.answer(request(1), HOST, PORT, START), Ignored.REPEATED)
        self.assertIsInstance(pings.answer(request(0), HOST, PORT, START), PingAnswer)
        self.assertIs(pings.answer(request(1), HOST, PORT, START), Ignored.REPEATED)
        self.assertIsInstance(pings.answer(request(2), HOST, PORT, START), PingAnswer)

    def test_memory_is_bounded(self) -> None:
        """More sources and cookies than are remembered, and the responder still answers."""
        many = max(SOURCES_REMEMBERED, COOKIES_REMEMBERED) * 2
        pings = responder(many)
        hosts = [f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in range(1, many + 1)]
        self.assertEqual(self.count(pings, hosts, START), many)
        self.assertLessEqual(len(pings._sources), SOURCES_REMEMBERED)
        self.assertLessEqual(len(pings._repeats), COOKIES_REMEMBERED)


class LoopTests(SynchronousTestCase):
    """Two responders made to answer each other by one forged datagram."""

    def volley(self, ports: tuple[int, int], seconds_each_way: float, most: int = 1000) -> int:
        """How many datagrams fly after one forged request to the first with the second as its source."""
        sides = responder(identifier=OURS), responder(identifier=THEIRS)
        hosts = "10.0.0.1", "10.0.0.2"
        datagram, now, flown, receiver = request(77), START, 1, 0
        while flown < most:
            sender = 1 - receiver
            outcome = sides[receiver].answer(datagram, hosts[sender], ports[sender], now)
            if isinstance(outcome, Ignored):
                self.assertIs(outcome, Ignored.REPEATED)
                break
            datagram, now, receiver = outcome.response.to_bytes(), now.later(seconds_each_way), sender
            flown += 1
        return flown

    def test_loop_ends(self) -> None:
        """However slow the network is, and whichever ports both listen on, few datagrams are sent."""
        for ports in ((3527, 3527), (3527, 4000)):
            for seconds in (0.0001, 0.02, 1.0, 4.0):
                self.assertLessEqual(self.volley(ports, seconds), 2 * REPEATS_ANSWERED + 1)

    def test_loop_of_one_ends(self) -> None:
        """A datagram that is forged to come from the responder itself does not keep it busy."""
        pings = responder()
        datagram = request(77)
        for _ in range(REPEATS_ANSWERED):
            outcome = pings.answer(datagram, "10.0.0.1", 3527, START)
            assert isinstance(outcome, PingAnswer)
            datagram = outcome.response.to_bytes()
        self.assertIs(pings.answer(datagram, "10.0.0.1", 3527, START), Ignored.REPEATED)

    def test_initiator_may_ask_from_the_ping_port(self) -> None:
        """2.1.2: the source port can be any port, 3527 too; new cookies are always answered."""
        pings = responder()
        for second in range(50):
            outcome = pings.answer(request(second), HOST, 3527, START.later(second))
            self.assertIsInstance(outcome, PingAnswer)

    def test_cookie_is_as_good_as_new_after_silence(self) -> None:
        """An initiator that was started again begins its cookies anew, perhaps on the same port."""
        pings = responder()
        outcomes = [pings.answer(request(1), HOST, PORT, START) for _ in range(REPEATS_ANSWERED + 1)]
        self.assertIs(outcomes[-1], Ignored.REPEATED)
        almost = START.later(SILENCE - 0.1)
        self.assertIs(pings.answer(request(1), HOST, PORT, almost), Ignored.REPEATED)
        self.assertIsInstance(pings.answer(request(1), HOST, PORT, almost.later(SILENCE)), PingAnswer)
