"""Connections on which large messages arrive are read a megabyte at a time, a few of them."""

from __future__ import annotations

import gc
import weakref

from msmq.direct_write import LARGE_SEND
from msmq.net.transports import LARGE_READ, MOST_LARGE_READS, READ_SIZE
from tests.builders import user_packet
from tests.net.test_receive_memory import KIB, Peer, ReceiveMemoryTestCase

LARGE = user_packet(bytes(64 * KIB))
SMALL = user_packet(bytes(KIB))


class LargeReadsTests(ReceiveMemoryTestCase):
    """A queue manager with ample memory, and peers whose data is read as their transports say."""

    limit = 64 * KIB * KIB

    def size_after(self, peer: Peer, packet: bytes) -> int:
        """The size of the reads from a peer after it has sent a megabyte of such packets."""
        peer.send(packet * (KIB * KIB // len(packet)))
        return peer.transport.bufferSize

    def test_large_messages_are_read_together(self) -> None:
        """A read that is filled by messages of 64 KiB is followed by larger ones."""
        peer = self.peer()
        self.assertEqual(peer.transport.bufferSize, READ_SIZE)
        self.assertEqual(self.size_after(peer, LARGE), LARGE_READ)
        self.assertEqual(len(peer.session.arrived), KIB // 65)

    def test_small_messages_are_read_as_before(self) -> None:
        """A megabyte of small messages would be too much work for one iteration of the reactor."""
        peer = self.peer()
        self.assertEqual(self.size_after(peer, SMALL), READ_SIZE)
        self.size_after(peer, LARGE)
        self.assertEqual(self.size_after(peer, SMALL), READ_SIZE)

    def test_before_the_handshake(self) -> None:
        """A peer that has not opened a session gets no large reads, whatever it sends."""
        peer = Peer(self.factory, 0, handshake=b"")
        peer.session.dataReceived(bytes(READ_SIZE))
        self.assertLess(peer.transport.bufferSize, LARGE_READ)

    def test_a_few_connections(self) -> None:
        """Of more connections than the limit, those have large reads that have filled one last."""
        peers = [self.peer() for _ in range(MOST_LARGE_READS + 1)]
        for peer in peers[:MOST_LARGE_READS]:
            self.size_after(peer, LARGE)
        self.size_after(peers[0], LARGE)
        self.size_after(peers[MOST_LARGE_READS], LARGE)
        sizes = [peer.transport.bufferSize for peer in peers]
        self.assertEqual(sizes, [LARGE_READ, READ_SIZE, *[LARGE_READ] * (MOST_LARGE_READS - 1)])

    def test_short_memory(self) -> None:
        """A session that is not read for want of memory is read less when it is read again."""
        peer = self.peer()
        self.size_after(peer, LARGE)
        self.memory.configure(0)
        peer.send(LARGE[: 32 * KIB])
        self.assertEqual(peer.transport.bufferSize, READ_SIZE)

    def test_closed_connections_are_forgotten(self) -> None:
        """A closed connection neither occupies memory nor counts."""
        peer = self.peer()
        self.size_after(peer, LARGE)
        transport = weakref.ref(peer.transport)
        peer.transport.loseConnection()
        self.peers.clear()
        del peer
        gc.collect()
        self.assertIsNone(transport())

    def test_large_writes(self) -> None:
        """What is written to a peer is passed to the kernel in pieces of half a megabyte."""
        self.assertEqual(self.peer().transport.SEND_LIMIT, LARGE_SEND)
