"""Packets that do not end, from many peers at once, and what all of them together may cost."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransportWithDisconnection
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from msmq.net.receive_memory import LARGEST_READ, LITTLE
from msmq.net.session import SessionProtocol
from msmq.net.session_factory import SessionFactory
from msmq.session.effects import CloseReason
from msmq.session.outgoing import OutgoingPacket
from msmq.settings import SessionSettings
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.testing.clock import ManualClock
from tests.builders import (
    ALPHA,
    BETA,
    establish,
    parameters,
    session_ack,
    session_header,
    user_packet,
)
from tests.shares import SHARES

KIB = 1024
LIMIT = 1024 * KIB
LARGE = user_packet(bytes(600 * KIB))
HANDSHAKE = establish(ALPHA) + parameters()


class Collecting(SessionProtocol):
    """Keeps the bodies of what arrives; a store that is slow holds them up."""

    arrived: list[bytes]
    reasons: list[CloseReason]
    store: Deferred[None] | None = None

    def connectionMade(self) -> None:
        self.arrived = []
        self.reasons = []
        super().connectionMade()

    def messages_arriving(
        self, messages: Sequence[UserMessageView], first_recoverable: int
    ) -> Deferred[None] | None:
        self.arrived += [bytes(message.body) for message in messages]
        return type(self).store

    def session_closed(self, reason: CloseReason, *rest: object) -> None:
        self.reasons.append(reason)


class Transport(StringTransportWithDisconnection):
    """A transport whose reads and writes have a size, which a session sets."""

    bufferSize = 1
    SEND_LIMIT = 1


class Peer:
    """A peer that sends in portions, as far as the other side reads."""

    def __init__(
        self, factory: SessionFactory, number: int, host: str = "127.0.0.9", handshake: bytes = HANDSHAKE
    ) -> None:
        kind: Any = IPv6Address if ":" in host else IPv4Address
        address = kind("TCP", host, 20000 + number)
        built = factory.buildProtocol(address)
        assert isinstance(built, Collecting)
        self.session = built
        self.transport = Transport(peerAddress=address)
        self.transport.protocol = built
        built.makeConnection(self.transport)
        built.dataReceived(handshake)
        self.unsent = b""

    @property
    def is_read(self) -> bool:
        """Whether the other side takes anything."""
        return self.transport.connected and self.transport.producerState == "producing"

    @property
    def is_open(self) -> bool:
        return self.session.is_open

    def send(self, data: bytes) -> None:
        """Send this, as far as it is read."""
        self.unsent += data
        self.go_on()

    def portion(self) -> bool:
        """Send as much as is read at once; whether there was anything to send, and it was read."""
        if not (self.unsent and self.is_read):
            return False
        size = self.transport.bufferSize
        portion, self.unsent = self.unsent[:size], self.unsent[size:]
        self.session.dataReceived(portion)
        return True

    def go_on(self) -> bool:
        """Send what was not read before; whether any of it was."""
        sent = False
        while self.portion():
            sent = True
        return sent


class ReceiveMemoryTestCase(SynchronousTestCase):
    """A queue manager that holds 1 MiB of unfinished packets."""

    limit = LIMIT

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.factory = SessionFactory(
            BETA,
            reactor=self.clock.reactor,
            clock=self.clock,
            shares=SHARES,
            settings=SessionSettings(receive_memory=self.limit),
        )
        self.memory = self.factory.receive_memory

        class Mine(Collecting):
            pass

        self.protocol = Mine
        self.factory.protocol = Mine
        self.peers: list[Peer] = []

    def peer(self, host: str = "127.0.0.9") -> Peer:
        """One more peer, after its handshake."""
        peer = Peer(self.factory, len(self.peers), host)
        self.peers.append(peer)
        return peer

    def settle(self) -> None:
        """Let all send until none can any more."""
        while any([peer.go_on() for peer in self.peers]):
            pass

    def assert_bounded(self, sessions: int) -> None:
        """No more was ever held than is promised."""
        self.assertLess(self.memory.peak, self.limit + len(LARGE) + sessions * (LITTLE + LARGEST_READ))


class PartialPacketsTests(ReceiveMemoryTestCase):
    """Everyone has sent the beginning of a packet."""

    def test_large_senders_get_a_window_of_one(self) -> None:
        """A peer that is not read any more gets a window of 1, one that holds nothing does not.

        MQMQ-2.2.20.4-11
        """
        stalled, other = [self.peer() for _ in range(20)], self.peer()
        for peer in stalled:
            peer.transport.clear()
        for peer in stalled:
            peer.send(LARGE[:-1])
        narrowed = [peer for peer in stalled if not peer.is_read]
        self.assertTrue(narrowed)
        for peer in narrowed:
            self.assertEqual(peer.transport.value()[-4:-2], b"\x01\0")
        self.assertEqual(other.session.session.statistics.window, 64)

    def test_large_senders_are_not_read(self) -> None:
        """The kernel makes them wait; sessions that hold little are read as usual."""
        stalled = [self.peer() for _ in range(20)]
        for peer in stalled:
            peer.send(LARGE[:-1])
        self.assert_bounded(20)
        self.assertGreater(self.memory.stopped, 10)
        small = self.peer()
        for _ in range(10):
            packet = user_packet(bytes(1000))
            small.send(packet + packet[:500])
            small.send(packet[500:])
        self.assertEqual(len(small.session.arrived), 20)

    def test_all_arrive_in_the_end(self) -> None:
        """Twenty large packets at once need more than there is, and come one after the other."""
        peers = [self.peer() for _ in range(20)]
        for peer in peers:
            peer.send(LARGE)
        self.settle()
        self.assertEqual([len(peer.session.arrived) for peer in peers], [1] * 20)
        self.assertEqual((self.memory.used, self.memory.stopped), (0, 0))
        self.assert_bounded(20)

    def test_the_peers_that_stand_still_make_room(self) -> None:
        """They lose their sessions as far as is needed, the largest first; a peer that sends stays."""
        greediest, greedy, less = self.peer(), self.peer(), self.peer()
        greediest.send(LARGE[: 600 * KIB])
        greedy.send(LARGE[: 300 * KIB])
        less.send(LARGE[: 200 * KIB])
        honest = [self.peer() for _ in range(3)]
        for peer in honest:
            peer.send(LARGE[: 100 * KIB])
        for _ in range(30):
            self.clock.advance(1)
            for peer in honest:
                peer.send(b"")
                if len(peer.unsent) == 0 and peer.session.received < 500 * KIB:
                    peer.send(LARGE[100 * KIB : 120 * KIB])
        self.assertEqual(greediest.session.reasons, [CloseReason.STALLED])
        self.assertTrue(all(peer.is_open for peer in honest))

    def test_a_host_with_many_sessions_loses_them_first(self) -> None:
        """The limit counts by host, for sessions of any size and any address of its network."""
        alone = self.peer("192.0.2.7")
        alone.send(LARGE[: 300 * KIB])
        many = [self.peer(f"2001:db8::{number:x}") for number in range(8)]
        for peer in many:
            peer.send(LARGE[: 90 * KIB])
        honest = [self.peer() for _ in range(3)]
        for peer in honest:
            peer.send(LARGE[: 100 * KIB])
        for _ in range(12):
            self.clock.advance(1)
            for peer in honest:
                peer.send(b"")
                if len(peer.unsent) == 0 and peer.session.received < 160 * KIB:
                    peer.send(LARGE[100 * KIB : 120 * KIB])
        self.assertTrue(alone.is_open)
        self.assertTrue(any(peer.session.reasons == [CloseReason.STALLED] for peer in many))
        self.assertTrue(all(peer.is_open for peer in honest))

    def test_slow_peers_are_left_alone_while_there_is_room(self) -> None:
        """A slow peer within the limits is not affected."""
        slow = self.peer()
        slow.send(LARGE[: 500 * KIB])
        self.clock.advance(100)
        self.assertTrue(slow.is_open)
        slow.send(LARGE[500 * KIB :])
        self.assertEqual(len(slow.session.arrived), 1)

    def test_a_lost_connection_releases_its_memory(self) -> None:
        """The waiting sessions continue."""
        first, second, third = self.peer(), self.peer(), self.peer()
        for peer in (first, second, third):
            peer.send(LARGE[:-1])
        self.assertFalse(third.is_read)
        second.session.connectionLost(Failure(ConnectionDone()))
        self.settle()
        third.send(LARGE[-1:])
        self.assertEqual(len(third.session.arrived), 1)
        first.session.close()
        self.assertEqual((self.memory.used, self.memory.stopped), (0, 0))

    def test_a_lost_connection_that_was_not_read(self) -> None:
        """It waits for memory no more, and those behind it continue."""
        first, second, third, fourth = (self.peer() for _ in range(4))
        for peer in (first, second, third, fourth):
            peer.send(LARGE[:-1])
        unread = [peer for peer in (second, third, fourth) if not peer.is_read]
        self.assertGreater(len(unread), 1)
        stopped = self.memory.stopped
        unread[0].session.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(self.memory.stopped, stopped - 1)
        unread[0].unsent = b""
        for peer in (first, second, third, fourth):
            peer.unsent += LARGE[-1:] if peer is not unread[0] else b""
        self.settle()
        self.assertEqual(
            [len(peer.session.arrived) for peer in self.peers],
            [int(peer is not unread[0]) for peer in self.peers],
        )
        self.assertEqual((self.memory.used, self.memory.stopped), (0, 0))

    def test_nothing_is_left_behind(self) -> None:
        """No timer, and no byte that is counted."""
        for _ in range(5):
            self.peer().send(LARGE[:-1])
        for peer in self.peers:
            peer.transport.loseConnection()
        self.assertEqual(self.memory.used, 0)
        self.clock.advance(10)
        self.assertEqual(self.clock.reactor.getDelayedCalls(), [])

    def test_any_crowd(self) -> None:
        """A peer that sends to the end arrives, however many others do not."""
        chance = random.Random(11)
        for _ in range(10):
            self.setUp()
            stalled = [self.peer() for _ in range(chance.randrange(20))]
            honest = [self.peer() for _ in range(1, chance.randrange(2, 10))]
            for peer in stalled:
                peer.send(LARGE[: chance.randrange(1, len(LARGE))])
            for peer in honest:
                peer.unsent = LARGE * chance.randrange(1, 4)
            expected = [len(peer.unsent) // len(LARGE) for peer in honest]
            for _ in range(400):
                self.clock.advance(1)
                self.settle()
            self.assertEqual([len(peer.session.arrived) for peer in honest], expected)
            self.assert_bounded(len(self.peers))


class NoMemoryTests(ReceiveMemoryTestCase):
    """A queue manager that may hold nothing."""

    limit = 0

    def test_a_session_that_alone_needs_memory_proceeds(self) -> None:
        """One packet is always allowed, however slowly it arrives."""
        alone = self.peer()
        for start in range(0, len(LARGE), LARGEST_READ):
            alone.send(LARGE[start : start + LARGEST_READ])
            self.clock.advance(20)
        self.assertEqual(len(alone.session.arrived), 1)

    def test_continuous_senders_get_no_more_iterations(self) -> None:
        """A stream of large packets does not keep the others waiting for its end."""
        greedy, modest = self.peer(), self.peer()
        greedy.unsent, modest.unsent = LARGE * 10, LARGE
        while modest.unsent:
            greedy.portion()
            modest.portion()
        self.assertLess(len(greedy.session.arrived), 3)

    def test_others_are_served_in_between(self) -> None:
        """One packet at a time."""
        for _ in range(5):
            self.peer().send(LARGE * 2)
        self.settle()
        self.assertEqual([len(peer.session.arrived) for peer in self.peers], [2] * 5)


class SlowStoreTests(ReceiveMemoryTestCase):
    """Packets are whole, and wait for a disk."""

    def test_what_waits_for_the_store_counts(self) -> None:
        """No more than the limit and one packet are there before the first of them is stored."""
        stores: list[Deferred[None]] = []
        for _ in range(10):
            self.protocol.store = Deferred()
            stores.append(self.protocol.store)
            self.peer().send(LARGE)
        arrived = sum(len(peer.session.arrived) for peer in self.peers)
        self.assertLess(arrived, 4)
        self.assertGreater(self.memory.used, LIMIT)
        self.clock.advance(100)
        self.assertTrue(all(peer.is_open for peer in self.peers))
        self.protocol.store = None
        for store in stores:
            store.callback(None)
        self.settle()
        self.assertEqual([len(peer.session.arrived) for peer in self.peers], [1] * 10)
        self.assertEqual(self.memory.used, 0)
        self.assert_bounded(10)

    def test_peers_that_wait_for_memory(self) -> None:
        """They get acknowledgements in time, or they would close their sessions and send everything again.

        Nor are our own messages to them given up, whose acknowledgements are not read.
        """
        self.protocol.store = Deferred()
        for _ in range(10):
            peer = self.peer()
            peer.session.send([OutgoingPacket(user_packet(b"ours"))])
            peer.send(LARGE)
        waiting = [peer for peer in self.peers if not peer.session.arrived]
        self.assertGreater(len(waiting), 5)
        for _ in range(9):
            for peer in waiting:
                peer.transport.clear()
            self.clock.advance(10)
            for peer in waiting:
                self.assertEqual(peer.transport.value()[:4], session_ack(session_header())[:4])
        self.assertTrue(all(peer.is_open for peer in self.peers))
        store, self.protocol.store = self.protocol.store, None
        store.callback(None)
        self.settle()
        self.assertEqual([len(peer.session.arrived) for peer in self.peers], [1] * 10)
        self.clock.advance(100)
        self.assertFalse(any(peer.is_open for peer in self.peers))
