"""Tests of the handshake, from both sides ([MS-MQQB] 3.1.5.2 to 3.1.5.4)."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.session.effects import Closed, CloseReason, ConnectionProgress, Disconnect, Opened, Progress
from msmq.session.ping_initiator import PingInitiator
from msmq.session.state import SessionState
from msmq.settings import SessionSettings
from msmq.wire.guid import braced
from tests.builders import (
    ALPHA,
    BETA,
    GAMMA,
    NULL,
    establish,
    established,
    parameters,
    session_ack,
    user_packet,
)
from tests.session.support import START, accepted, dialled, open_acceptor, open_initiator


class AcceptorTests(SynchronousTestCase):
    """[MS-MQQB] 3.1.5.3.1 and 3.1.5.4.1, the side that was dialled."""

    def test_waits_for_the_initiator(self) -> None:
        """A fresh connection says nothing and waits (MQQB-3.1.5.10-01).

        When the initiator stays silent, it is closed after 60 seconds (MQQB-3.1.2.1-02,
        MQQB-3.1.2.1-04, MQQB-3.1.6.6-01).
        """
        driven = accepted()
        self.assertEqual(driven.session.state, SessionState.WAITING_EC_MSG)
        self.assertEqual(driven.written, b"")
        driven.advance(59.999)
        self.assertIsNone(driven.close_reason)
        driven.advance(0.001)
        self.assertEqual(driven.close_reason, CloseReason.INITIALIZATION_TIMEOUT)

    def test_answers_with_its_own_identifier(self) -> None:
        """The response echoes ClientGuid, TimeStamp and SE, and has our GUID, 0x5A padding and Reserved 0x5A.

        MQQB-2.2.3-02, MQQB-3.1.5.3.1-03, MQQB-3.1.5.3.1-04, MQQB-2.2.3.1-02, MQQB-2.2.3.1-04,
        MQQB-2.2.3.1-05, MQQB-2.2.3.1-07, MQQB-2.2.3.1-13.
        """
        for operating_system, echoed in ((0x0110, 0x0110), (0x0010, 0x0010), (0x0310, 0x0110)):
            driven = accepted()
            request = establish(
                ALPHA, NULL, time_stamp=501140046, operating_system=operating_system, padding=b"\xee" * 512
            )
            driven.receive(request)
            expected = established(ALPHA, BETA, time_stamp=501140046, operating_system=echoed)
            self.assertEqual(driven.take_written(), expected)
            self.assertEqual(driven.session.state, SessionState.WAITING_CP_MSG)
            self.assertEqual(driven.session.remote_identifier, ALPHA)

    def test_takes_its_own_identifier_in_the_request(self) -> None:
        """A request for exactly us is accepted (MQQB-2.2.1-07, MQQB-3.1.5.3.1-01)."""
        driven = accepted()
        driven.receive(establish(ALPHA, BETA))
        self.assertEqual(driven.take_written(), established(ALPHA, BETA))

    def test_refuses_a_request_for_another_queue_manager(self) -> None:
        """CS is set, the reply is sent, and the connection closes behind it.

        MQQB-2.2.1-07, MQQB-2.2.1-05, MQQB-3.1.5.3.1-05.
        """
        driven = accepted()
        driven.receive(establish(ALPHA, GAMMA))
        self.assertEqual(driven.take_written(), established(ALPHA, BETA, refused=True))
        self.assertEqual(driven.close_reason, CloseReason.REFUSED)
        [closed] = [effect for effect in driven.effects if isinstance(effect, Closed)]
        self.assertIn(f"{braced(GAMMA)} is not this queue manager, {braced(BETA)}", str(closed.error))
        self.assertIn(Disconnect(), driven.effects)
        self.assertEqual(driven.session.state, SessionState.CLOSED)

    def test_refuses_when_policy_says_so(self) -> None:
        """A queue manager with too many sessions says so in the handshake (MQQB-2.2.1-08)."""
        driven = accepted(accepts=False)
        driven.receive(establish(ALPHA))
        self.assertEqual(driven.take_written(), established(ALPHA, BETA, refused=True))
        self.assertEqual(driven.close_reason, CloseReason.REFUSED)

    def test_ignores_the_initiators_operating_system(self) -> None:
        """Clients, servers and senders of unknown bits are all welcome.

        MQQB-2.2.3.1-09, MQQB-2.2.3.1-10, MQQB-2.2.3.1-11.
        """
        for operating_system in (0x0010, 0x0210, 0x0410, 0xF810):
            driven = accepted()
            driven.receive(establish(ALPHA, operating_system=operating_system))
            self.assertEqual(driven.session.state, SessionState.WAITING_CP_MSG)

    def test_takes_the_initiators_parameters_and_gives_its_window(self) -> None:
        """Both times are echoed, the window is our own (MQQB-3.1.5.4.1-01, MQQB-3.1.5.4.1-03).

        A recoverable message is acknowledged after the initiator's time for these, any other after half of
        its AckTimeout.
        """
        driven = accepted()
        driven.receive(establish(ALPHA))
        driven.take_written()
        driven.receive(parameters(1496, 30000, 8))
        self.assertEqual(driven.take_written(), parameters(1496, 30000, 64))
        self.assertEqual(driven.session.statistics.window, 8)
        driven.take_written()
        for packet, wait in ((user_packet(), 15), (user_packet(recoverable=True), 1.496)):
            driven.receive(packet)
            driven.advance(wait - 0.001)
            self.assertEqual(driven.take_written(), b"")
            driven.advance(0.001)
            self.assertNotEqual(driven.take_written(), b"")

    def test_echoes_parameters_out_of_range_without_using_them(self) -> None:
        """AckTimeout 0 arms no timer of zero length (MQQB-2.2.2.1-06); window 0 counts as 1.

        MQQB-2.2.2.1-05.
        """
        driven = accepted()
        driven.receive(establish(ALPHA))
        driven.take_written()
        driven.receive(parameters(0, 0, 0))
        self.assertEqual(driven.take_written(), parameters(0, 0, 64))
        self.assertEqual(driven.session.capacity, 1)
        driven.send(user_packet())
        driven.take_written()
        driven.advance(39.9)
        self.assertIsNone(driven.close_reason)

    def test_opens_with_the_parameters(self) -> None:
        """After its response the session is open and user messages are welcome.

        MQQB-3.1.5.4.1-04, MQQB-2.1.1-05.
        """
        driven = accepted()
        driven.receive(establish(ALPHA))
        driven.receive(parameters() + user_packet(b"at once"))
        self.assertEqual(driven.session.state, SessionState.OPEN)
        self.assertEqual(driven.take(Opened), [Opened(ALPHA)])
        self.assertEqual(driven.bodies, [b"at once"])
        driven.advance(60)
        self.assertIsNone(driven.close_reason)

    def test_restarts_the_initialization_timer_with_its_answer(self) -> None:
        """Each step of the handshake has 60 seconds of its own (MQQB-3.1.2.1-02)."""
        driven = accepted()
        driven.advance(59)
        driven.receive(establish(ALPHA))
        driven.advance(59.9)
        self.assertIsNone(driven.close_reason)
        driven.advance(0.1)
        self.assertEqual(driven.close_reason, CloseReason.INITIALIZATION_TIMEOUT)

    def test_two_half_open_sessions_expire_on_their_own(self) -> None:
        """Each session has its own timer, and its duration is configured (MQQB-3.1.2.1-03)."""
        quick = accepted(settings=SessionSettings(session_initialization=2.0))
        slow = accepted()
        quick.advance(2)
        slow.advance(2)
        self.assertEqual(quick.close_reason, CloseReason.INITIALIZATION_TIMEOUT)
        self.assertIsNone(slow.close_reason)

    def test_closes_on_packets_at_the_wrong_time(self) -> None:
        """A packet before or after its state closes the session.

        MQQB-3.1.5.3-01, MQQB-3.1.5.4-01, MQQB-3.1.5.5-01.
        """
        cases = [
            ("parameters first", accepted, parameters()),
            ("acknowledgement first", accepted, session_ack(bytes(16))),
            ("message first", accepted, user_packet()),
            ("second EC while open", open_acceptor, establish(ALPHA)),
            ("second CP while open", open_acceptor, parameters()),
        ]
        for name, make, packet in cases:
            with self.subTest(name):
                driven = make()
                driven.receive(packet)
                self.assertEqual(driven.close_reason, CloseReason.OUT_OF_TURN)
                self.assertEqual(driven.written, b"")
                [closed] = [effect for effect in driven.effects if isinstance(effect, Closed)]
                state = "OPEN" if "open" in name else "WAITING_EC_MSG"
                self.assertIn(f"packet received in state {state}", str(closed.error))

    def test_closes_on_a_second_establish_connection(self) -> None:
        """A second introduction is an error, before the parameters too."""
        driven = accepted()
        driven.receive(establish(ALPHA) + establish(ALPHA))
        self.assertEqual(driven.close_reason, CloseReason.OUT_OF_TURN)

    def test_closes_on_an_acknowledgement_before_the_parameters(self) -> None:
        """A SessionAck in WAITING_CP_MSG closes the session (MQQB-3.1.5.5-01)."""
        driven = accepted()
        driven.receive(establish(ALPHA) + session_ack(bytes(16)))
        self.assertEqual(driven.close_reason, CloseReason.OUT_OF_TURN)

    def test_closes_on_an_unknown_internal_packet(self) -> None:
        """IN with any PT but 1, 2 and 3 closes the session, and nothing is answered.

        MQQB-2.2.1-04, MQQB-2.1.1-06.
        """
        for packet_type in (0x0, *range(0x4, 0x10)):
            packet = bytearray(session_ack(bytes(16)))
            packet[18] = packet_type
            driven = open_acceptor()
            driven.receive(bytes(packet))
            self.assertEqual(driven.close_reason, CloseReason.MALFORMED_PACKET)
            self.assertEqual(driven.written, b"")

    def test_closes_on_a_bad_signature_or_version(self) -> None:
        """The packet is dropped and the session closed (MQQB-3.1.5.1.2-02)."""
        good = user_packet(b"never")
        for bad in (b"\x11" + good[1:], good[:4] + good[7:3:-1] + good[8:]):
            driven = open_acceptor()
            driven.receive(bad)
            self.assertEqual(driven.close_reason, CloseReason.MALFORMED_PACKET)
            self.assertEqual(driven.bodies, [])

    def test_closes_on_a_ping_in_the_stream(self) -> None:
        """Ping packets never travel over TCP, whatever their QMGuid says in the place of PacketSize.

        MQQB-2.1.2-08.
        """
        for identifier in (ALPHA.bytes_le, (36).to_bytes(4, "little") + ALPHA.bytes_le[4:]):
            driven = open_acceptor()
            driven.receive(bytes.fromhex("017d485504000000") + identifier)
            self.assertEqual(driven.close_reason, CloseReason.MALFORMED_PACKET)


class InitiatorTests(SynchronousTestCase):
    """[MS-MQQB] 3.1.5.2.3, 3.1.5.3.2 and 3.1.5.4.2, the side that dials."""

    def test_introduces_itself(self) -> None:
        """The first packet has our GUID, a null ServerGuid on a direct name, and the uptime.

        MQQB-3.1.5.2.3-02, MQQB-3.1.5.2.3-03, MQQB-2.2.3.1-03, MQQB-2.2.3.1-06, MQQB-2.2.3.1-14,
        MQQB-2.1.1-05.
        """
        driven = dialled()
        expected = establish(ALPHA, NULL, time_stamp=1_000_000, operating_system=0x0110)
        self.assertEqual(driven.take_written(), expected)

    def test_names_whom_it_wants(self) -> None:
        """Toward a private format name the acceptor's GUID is in the request (MQQB-2.2.3.1-03)."""
        driven = dialled(expected_identifier=BETA)
        self.assertEqual(driven.take_written(), establish(ALPHA, BETA, time_stamp=1_000_000))

    def test_says_whether_it_pinged(self) -> None:
        """SE is 0 if a Ping was sent for this session (MQQB-3.1.5.2.3-03, MQQB-2.2.3.1-07)."""
        driven = dialled(was_pinged=True)
        expected = establish(ALPHA, time_stamp=1_000_000, operating_system=0x0010)
        self.assertEqual(driven.take_written(), expected)

    def test_says_whether_it_is_a_server(self) -> None:
        """One setting drives the OS bit (MQQB-2.2.3.1-08)."""
        driven = dialled(settings=SessionSettings(is_server=True))
        expected = establish(ALPHA, time_stamp=1_000_000, operating_system=0x0310)
        self.assertEqual(driven.take_written(), expected)

    def test_one_setting_for_both_packets(self) -> None:
        """A server sets OS and clears RC, a client the other way round (MQQB-2.2.3.1-15)."""
        for is_server, establish_flag, ping_flag in ((True, 0x0200, 0), (False, 0, 1)):
            settings = SessionSettings(is_server=is_server)
            request = dialled(settings=settings).written
            ping = PingInitiator(ALPHA, settings).ask("127.0.0.3", START).datagram
            self.assertEqual(int.from_bytes(request[56:58], "little") & 0x0200, establish_flag)
            self.assertEqual(ping[0] & 1, ping_flag)

    def test_records_that_it_waits(self) -> None:
        """The state is WAITING_ECR_MSG and the history says InProcess (MQQB-3.1.5.2.3-04)."""
        driven = dialled()
        self.assertEqual(driven.session.state, SessionState.WAITING_ECR_MSG)
        self.assertEqual(driven.take(Progress), [Progress(ConnectionProgress.IN_PROCESS)])

    def test_gives_up_without_an_answer(self) -> None:
        """Silence closes the session after 60 seconds.

        MQQB-3.1.5.2.3-05, MQQB-3.1.2.1-01, MQQB-3.1.6.6-01.
        """
        driven = dialled()
        driven.advance(59.999)
        self.assertIsNone(driven.close_reason)
        driven.advance(0.001)
        self.assertEqual(driven.close_reason, CloseReason.INITIALIZATION_TIMEOUT)

    def test_proposes_parameters(self) -> None:
        """The ack time of recoverable messages is eight round trips (MQQB-3.1.5.3.2-03).

        MQQB-3.1.5.3.2-01, MQQB-3.1.5.3.2-05, MQQB-3.1.5.3.2-06, MQQB-3.1.3.2-09, MQQB-3.1.3.2-12.
        """
        driven = dialled()
        driven.take_written()
        driven.effects.clear()
        driven.advance(0.187)
        driven.receive(establish(ALPHA, BETA, time_stamp=1_000_000))
        self.assertEqual(driven.take_written(), parameters(1496, 20000, 64))
        self.assertEqual(driven.session.state, SessionState.WAITING_CPR_MSG)
        self.assertEqual(driven.effects, [Progress(ConnectionProgress.ESTABLISH_PACKET_RECEIVED)])

    def test_limits_the_ack_time(self) -> None:
        """A round trip of nothing gives 500 ms, one of a minute 120 s (MQQB-3.1.5.3.2-04).

        MQQB-2.2.2.1-02.
        """
        for wait, expected in ((0.0, 500), (59.0, 120000)):
            driven = dialled()
            driven.take_written()
            driven.advance(wait)
            driven.receive(establish(ALPHA, BETA, time_stamp=1_000_000))
            self.assertEqual(driven.take_written(), parameters(expected, 20000, 64))

    def test_measures_the_round_trip_over_a_wrap_of_the_clock(self) -> None:
        """Milliseconds since start are taken modulo 2**32 (MQQB-3.1.5.3.2-03)."""
        driven = dialled()
        driven.take_written()
        driven.receive(establish(ALPHA, BETA, time_stamp=(1_000_000 - 200) & 0xFFFFFFFF))
        self.assertEqual(driven.take_written(), parameters(1600, 20000, 64))

    def test_configured_ack_timeout_is_proposed(self) -> None:
        """AckWaitTimeout comes from configuration (MQQB-3.1.3.2-11)."""
        driven = dialled(settings=SessionSettings(ack_wait_timeout=30.0))
        driven.take_written()
        driven.receive(establish(ALPHA, BETA, time_stamp=1_000_000))
        self.assertEqual(driven.take_written(), parameters(500, 30000, 64))

    def test_learns_the_peer_behind_a_direct_name(self) -> None:
        """Any identifier is adopted, a null one is not (MQQB-3.1.5.3.2-02)."""
        driven = dialled()
        driven.receive(establish(ALPHA, GAMMA))
        self.assertEqual(driven.session.remote_identifier, GAMMA)
        driven = dialled()
        driven.receive(establish(ALPHA, NULL))
        self.assertEqual(driven.close_reason, CloseReason.WRONG_PEER)

    def test_closes_on_a_wrong_answer(self) -> None:
        """Another client, another server, or a refusal ends the attempt (MQQB-3.1.5.3.2-02).

        The error names the foreign identifier and where it is.
        """
        foreign = braced(GAMMA)
        cases: list[tuple[bytes, CloseReason, str | None]] = [
            (establish(GAMMA, BETA), CloseReason.WRONG_PEER, f"ClientGuid at offset 20: {foreign} is not"),
            (establish(ALPHA, GAMMA), CloseReason.WRONG_PEER, f"ServerGuid at offset 36: {foreign} answered"),
            (establish(ALPHA, BETA, refused=True), CloseReason.REFUSED_BY_PEER, None),
        ]
        for answer, reason, words in cases:
            driven = dialled(expected_identifier=BETA)
            driven.take_written()
            driven.receive(answer)
            self.assertEqual(driven.close_reason, reason)
            self.assertEqual(driven.written, b"")
            [closed] = [effect for effect in driven.effects if isinstance(effect, Closed)]
            self.assertIn(words or "None", str(closed.error))

    def test_records_a_refusal(self) -> None:
        """The connection history says ConnectionRefused."""
        driven = dialled()
        driven.effects.clear()
        driven.receive(establish(ALPHA, BETA, refused=True))
        self.assertEqual(driven.take(Progress), [Progress(ConnectionProgress.CONNECTION_REFUSED)])

    def test_opens_with_the_answer(self) -> None:
        """The peer's window counts, the init timer stops, the history says Established.

        MQQB-3.1.5.4.2-01, MQQB-3.1.5.4.2-03, MQQB-3.1.2.1-01.
        """
        driven = dialled()
        driven.receive(establish(ALPHA, BETA, time_stamp=1_000_000))
        driven.effects.clear()
        driven.receive(parameters(500, 20000, 2))
        self.assertEqual(driven.session.state, SessionState.OPEN)
        self.assertEqual(driven.session.capacity, 2)
        self.assertEqual(driven.effects, [Progress(ConnectionProgress.ESTABLISHED), Opened(BETA)])
        driven.advance(60)
        self.assertEqual(driven.session.state, SessionState.OPEN)

    def test_a_refusal_may_come_with_the_parameters(self) -> None:
        """CS in the second answer closes as well (MQQB-3.1.5.4.2-01)."""
        driven = dialled()
        driven.receive(establish(ALPHA, BETA))
        driven.receive(parameters(refused=True))
        self.assertEqual(driven.close_reason, CloseReason.REFUSED_BY_PEER)

    def test_a_second_establish_connection_closes(self) -> None:
        """The same answer twice closes the session."""
        driven = dialled()
        driven.receive(establish(ALPHA, BETA) * 2)
        self.assertEqual(driven.close_reason, CloseReason.OUT_OF_TURN)

    def test_a_new_session_counts_from_zero(self) -> None:
        """The first message of a session is number 1 of both counts (MQQB-3.1.3.2-01)."""
        for _ in range(2):
            driven = open_initiator()
            driven.send(user_packet(b"one"))
            statistics = driven.session.statistics
            self.assertEqual((statistics.sent, statistics.unacknowledged), (1, 1))

    def test_two_sessions_count_separately(self) -> None:
        """Counts of one session do not affect another (MQQB-3.1.1.3.1-01)."""
        one, other = open_initiator(), open_initiator()
        one.send(user_packet())
        self.assertEqual((one.session.statistics.sent, other.session.statistics.sent), (1, 0))
        self.assertEqual((one.session.capacity, other.session.capacity), (63, 64))

    def test_internal_reserved_bits_are_ignored(self) -> None:
        """Unused bits and reserved fields of the handshake change nothing.

        MQQB-2.2.1-02, MQQB-2.2.1-10, MQQB-2.2.2.1-04, MQQB-2.2.3.1-12.
        """
        driven = accepted()
        request = bytearray(establish(ALPHA))
        request[16:18] = b"\xff\xff"
        request[18:20] = (0x0002 | 0xFFE0).to_bytes(2, "little")
        request[58:60] = b"\xff\xff"
        driven.receive(bytes(request))
        second = bytearray(parameters())
        second[18:20] = (0x0003 | 0x8000).to_bytes(2, "little")
        second[28:30] = b"\xef\xbe"
        driven.receive(bytes(second))
        self.assertEqual(driven.session.state, SessionState.OPEN)

    def test_identifiers_are_in_the_documents_byte_order(self) -> None:
        """GUIDs go out in MS-DTYP order (MQQB-2.2-02)."""
        identifier = UUID("557358D1-9150-9595-4997-B6E611EA26C6")
        driven = dialled(identifier=identifier)
        self.assertEqual(driven.written[20:36], bytes.fromhex("d1587355509195954997b6e611ea26c6"))
