"""In-memory stream connections with network faults, on the clock of a test."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterable
from typing import ClassVar, cast

import attrs
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import (
    IConsumer,
    IDelayedCall,
    IProducer,
    IProtocol,
    IPushProducer,
    IReactorTime,
    ITCPTransport,
)
from twisted.python.failure import Failure
from zope.interface import implementer

from msmq.errors import LocalProtocolError
from msmq.quoting import kind_of


@attrs.frozen(kw_only=True)
class Conditions:
    """Conditions of a path through the network: delay, loss, bandwidth.

    @ivar delay: seconds from writing to arrival.
    @ivar jitter: up to this many seconds more, at random; a stream stays in order, datagrams may overtake.
    @ivar largest_chunk: a stream arrives in pieces of 1 to this many bytes, at random; C{None} gives all
        that has arrived by then in one piece.
    @ivar loss: the part of the datagrams that vanishes, 0 to 1; a stream loses nothing.
    @ivar duplication: the part of the datagrams that arrives twice, 0 to 1.
    """

    delay: float = 0.0
    jitter: float = 0.0
    largest_chunk: int | None = None
    loss: float = 0.0
    duplication: float = 0.0

    def __attrs_post_init__(self) -> None:
        for name, largest in (
            ("delay", math.inf),
            ("jitter", math.inf),
            ("loss", 1.0),
            ("duplication", 1.0),
        ):
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise LocalProtocolError(f"Conditions: {name} is {kind_of(value)}; it has to be a number")
            if not 0 <= value <= largest:
                limit = "" if math.isinf(largest) else f" to {largest:g}"
                raise LocalProtocolError(f"Conditions: {name} is {value:g}; it has to be from 0{limit}")
        chunk: object = self.largest_chunk
        if chunk is not None and (isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1):
            words = str(chunk) if type(chunk) is int else kind_of(chunk)
            raise LocalProtocolError(
                f"Conditions: largest_chunk is {words}; it has to be a whole number from 1, or None"
            )


PERFECT = Conditions()
"""Everything arrives whole, once, in order, in the same second."""


class _Pipe:
    """One direction of a connection: bytes in flight, in order, and perhaps an end after them."""

    def __init__(self, clock: IReactorTime, chance: random.Random, conditions: Conditions) -> None:
        self._clock = clock
        self._chance = chance
        self._conditions = conditions
        self._under_way: deque[tuple[float, bytes]] = deque()
        self._latest = 0.0
        self._ends: float | None = None
        self._call: IDelayedCall | None = None
        self.size = 0
        self.holds: set[str] = set()

    def write(self, data: bytes) -> None:
        self._under_way.append((self._arrival(), data))
        self.size += len(data)

    def end(self) -> None:
        self._ends = self._arrival()

    def _arrival(self) -> float:
        arrival = self._clock.seconds() + self._conditions.delay
        if self._conditions.jitter:
            arrival += self._chance.uniform(0, self._conditions.jitter)
        self._latest = max(self._latest, arrival)
        return self._latest

    def discard(self) -> None:
        """Drop the bytes in flight."""
        self._under_way.clear()
        self.size = 0
        self._ends = None
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def schedule(self, receiver: MemoryTransport) -> None:
        """Schedule the next arrival, never inside the call that sent it."""
        arrival = self._under_way[0][0] if self._under_way else self._ends
        if arrival is None or self.holds or self._call is not None:
            return
        delay = max(0.0, arrival - self._clock.seconds())
        self._call = self._clock.callLater(delay, self._arrive, receiver)

    def _arrive(self, receiver: MemoryTransport) -> None:
        self._call = None
        if self.holds:
            return
        now = self._clock.seconds()
        arrived: list[bytes] = []
        while self._under_way and self._under_way[0][0] <= now:
            arrived.append(self._under_way.popleft()[1])
        data = b"".join(arrived)
        for position, chunk in self._chunks(data):
            self.size -= len(chunk)
            receiver.deliver(chunk)
            if receiver.is_over:
                return
            if self.holds:
                self._under_way.appendleft((now, data[position + len(chunk) :]))
                return
        if not self._under_way and self._ends is not None and self._ends <= now:
            self._ends = None
            receiver.end_arrived()
            return
        self.schedule(receiver)

    def _chunks(self, data: bytes) -> Iterable[tuple[int, bytes]]:
        largest = self._conditions.largest_chunk
        position = 0
        while position < len(data):
            size = len(data) if largest is None else self._chance.randint(1, largest)
            yield position, data[position : position + size]
            position += size


@implementer(ITCPTransport, IConsumer, IPushProducer)
class MemoryTransport:
    """One end of an in-memory connection; what a protocol has for its C{transport}.

    It has the guarantees of a TCP transport: nothing arrives inside the call that sent it, a
    streaming producer is paused while much is in flight, and a closing connection first writes out.

    @ivar protocol: the protocol that uses it.
    @ivar written: every piece that the protocol wrote, with the second at which it did.
    @ivar received: the bytes that have been delivered to the protocol.
    """

    HIGH_WATER: ClassVar[int] = 65536
    """Bytes in flight at which a streaming producer is paused."""

    disconnecting = False

    def __init__(
        self,
        clock: IReactorTime,
        pipe: _Pipe,
        host: IPv4Address | IPv6Address,
        peer: IPv4Address | IPv6Address,
    ) -> None:
        self._clock = clock
        self._pipe = pipe
        self._host = host
        self._peer_address = peer
        self._other: MemoryTransport | None = None
        self._producer: IPushProducer | None = None
        self._is_streaming = False
        self._is_producer_paused = False
        self._no_delay = False
        self._keep_alive = False
        self.protocol: IProtocol | None = None
        self.written: list[tuple[float, bytes]] = []
        self.received = bytearray()
        self.connected = True

    @property
    def is_over(self) -> bool:
        """Whether C{connectionLost} is due or has been called."""
        return not self.connected

    @property
    def data(self) -> bytes:
        """All that the protocol wrote."""
        return b"".join(data for _, data in self.written)

    def attach(self, other: MemoryTransport, protocol: IProtocol) -> None:
        """Join the two ends; the network does this."""
        self._other = other
        self.protocol = protocol

    def write(self, data: bytes) -> None:
        """Send bytes to the other end."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"a transport takes bytes, not {type(data).__name__}")
        if not self.connected or self.disconnecting or not data:
            return
        self.written.append((self._clock.seconds(), bytes(data)))
        self._pipe.write(bytes(data))
        self._move()
        if self._pipe.size > self.HIGH_WATER and self._is_streaming and not self._is_producer_paused:
            if self._producer is not None:
                self._is_producer_paused = True
                self._producer.pauseProducing()

    def writeSequence(self, data: Iterable[bytes]) -> None:
        """Send several pieces as one."""
        self.write(b"".join(data))

    def loseConnection(self) -> None:
        """Close once everything is written, and no producer has more to say."""
        if self.connected and not self.disconnecting:
            self.disconnecting = True
            if self._producer is None:
                self._finish()

    def loseWriteConnection(self) -> None:
        """Close as a whole: this transport knows no half of a connection."""
        self.loseConnection()

    def abortConnection(self) -> None:
        """Cut the connection; bytes in flight in both directions are lost."""
        self.cut(ConnectionAborted(), ConnectionLost())

    def cut(self, reason: Exception, peer_reason: Exception) -> None:
        """Lose the connection at once at both ends."""
        other = self._other
        self._pipe.discard()
        self.lose(reason)
        if other is not None:
            other._pipe.discard()
            other.lose(peer_reason)

    def lose(self, reason: Exception) -> None:
        """Notify the protocol, in its own iteration, that the connection is lost."""
        if self.connected:
            self.connected = False
            self.disconnecting = True
            self._clock.callLater(0, self._tell_lost, reason)

    def _tell_lost(self, reason: Exception) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.stopProducing()
        if self.protocol is not None:
            self.protocol.connectionLost(Failure(reason))

    def _finish(self) -> None:
        self._pipe.end()
        self._move()
        self.lose(ConnectionDone())

    def _move(self) -> None:
        if self._other is not None:
            self._pipe.schedule(self._other)

    def deliver(self, data: bytes) -> None:
        """Give the protocol what arrived."""
        if self.protocol is None or not self.connected or not data:
            return
        self.received += data
        self.protocol.dataReceived(data)
        if self._other is not None:
            self._other.drained()

    def drained(self) -> None:
        """Resume a paused producer when half of the bytes in flight have arrived."""
        if self._producer is None:
            return
        if not self._is_streaming:
            if self._pipe.size == 0:
                self._producer.resumeProducing()
        elif self._is_producer_paused and self._pipe.size <= self.HIGH_WATER // 2:
            self._is_producer_paused = False
            self._producer.resumeProducing()

    def end_arrived(self) -> None:
        """The other end closed, and everything before that has arrived."""
        self._pipe.discard()
        self.lose(ConnectionDone())

    def hold(self, reason: str) -> None:
        """Let nothing that this end wrote arrive until every reason is gone."""
        self._pipe.holds.add(reason)

    def release(self, reason: str) -> None:
        """Take one reason away; what was held arrives."""
        self._pipe.holds.discard(reason)
        self._move()

    def registerProducer(self, producer: IProducer, streaming: bool) -> None:
        """Pause and resume a streaming producer with the bytes in flight; pull from any other."""
        if self._producer is not None:
            raise RuntimeError("a producer is already registered")
        if not self.connected:
            producer.stopProducing()
            return
        self._producer = cast("IPushProducer", producer)
        self._is_streaming = streaming
        if not streaming:
            self._clock.callLater(0, self.drained)

    def unregisterProducer(self) -> None:
        """The producer has finished."""
        self._producer = None
        self._is_producer_paused = False
        if self.connected and self.disconnecting:
            self._finish()

    def pauseProducing(self) -> None:
        """Deliver nothing to the protocol for a while."""
        if self._other is not None:
            self._other.hold("paused")

    def resumeProducing(self) -> None:
        """Deliver again."""
        if self._other is not None:
            self._other.release("paused")

    def stopProducing(self) -> None:
        """Close."""
        self.loseConnection()

    def getHost(self) -> IPv4Address | IPv6Address:
        """The address of this end."""
        return self._host

    def getPeer(self) -> IPv4Address | IPv6Address:
        """The address of the other end."""
        return self._peer_address

    def getTcpNoDelay(self) -> bool:
        """Whether small writes are sent at once; in memory they always are."""
        return self._no_delay

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Remember the wish."""
        self._no_delay = bool(enabled)

    def getTcpKeepAlive(self) -> bool:
        """Whether a silent connection is probed; in memory it never is."""
        return self._keep_alive

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """Remember the wish."""
        self._keep_alive = bool(enabled)


class Link:
    """A connection between two protocols.

    @ivar initiator: the end that dialled.
    @ivar acceptor: the other end.
    """

    def __init__(
        self,
        clock: IReactorTime,
        initiator: IProtocol,
        acceptor: IProtocol,
        *,
        conditions: Conditions = PERFECT,
        chance: random.Random | None = None,
        addresses: tuple[IPv4Address | IPv6Address, IPv4Address | IPv6Address] = (
            IPv4Address("TCP", "127.0.0.2", 49759),
            IPv4Address("TCP", "127.0.0.3", 1801),
        ),
    ) -> None:
        chance = chance if chance is not None else random.Random(0)
        near, far = addresses
        self.initiator = MemoryTransport(clock, _Pipe(clock, chance, conditions), near, far)
        self.acceptor = MemoryTransport(clock, _Pipe(clock, chance, conditions), far, near)
        self.initiator.attach(self.acceptor, initiator)
        self.acceptor.attach(self.initiator, acceptor)
        acceptor.makeConnection(self.acceptor)
        initiator.makeConnection(self.initiator)

    @property
    def is_connected(self) -> bool:
        """Whether neither end has lost the connection."""
        return self.initiator.connected and self.acceptor.connected

    @property
    def bytes_under_way(self) -> tuple[int, int]:
        """What the initiator, and what the acceptor, has written that has not arrived."""
        return self.initiator._pipe.size, self.acceptor._pipe.size

    def cut(self) -> None:
        """Lose the connection at once at both ends, with all bytes in flight."""
        self.initiator.cut(ConnectionLost(), ConnectionLost())

    def stall(self) -> None:
        """Drop everything, in both directions, without notice."""
        self.initiator.hold("stalled")
        self.acceptor.hold("stalled")

    def resume(self) -> None:
        """End a stall; bytes in flight arrive, late and in order."""
        self.initiator.release("stalled")
        self.acceptor.release("stalled")
