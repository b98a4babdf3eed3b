"""The witness of the demo: a proxy between two queue managers that counts the packets it forwards.

It knows nothing of queues and sessions; it cuts both directions of every connection into packets and
classifies them, with the same two functions that any program may use.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, Self

from twisted.internet.endpoints import TCP4ClientEndpoint, TCP4ServerEndpoint, connectProtocol
from twisted.internet.interfaces import IAddress, IStreamClientEndpoint
from twisted.internet.protocol import Protocol, ServerFactory
from twisted.internet.threads import blockingCallFromThread
from twisted.python.failure import Failure

from msmq import RemoteProtocolError, StreamFramer, classify, measure_user_message

SESSION_PORT = 1801
UNREADABLE = "unreadable"


class Side(Protocol):
    """One of two connections of a pair: counts the received packets and writes them to the other."""

    transport: Any

    def __init__(self, seen: Counter[str]) -> None:
        self._seen = seen
        self._framer = StreamFramer(measure_user_message)
        self.other: Side | None = None

    def join(self, other: Side) -> None:
        """Connect two sides: each writes to the other what it receives, with flow control."""
        for one, its_other in ((self, other), (other, self)):
            one.other = its_other
            one.transport.registerProducer(its_other.transport, True)

    def dataReceived(self, data: bytes) -> None:
        """Count the complete packets, and forward every byte at once."""
        for packet, _ in self._framer.feed(data):
            try:
                self._seen[classify(packet).name.lower()] += 1
            except RemoteProtocolError:
                self._seen[UNREADABLE] += 1
        if self._framer.error is not None:
            self._seen[UNREADABLE] += 1
        if self.other is not None:
            self.other.transport.write(data)

    def connectionLost(self, reason: Failure | None = None) -> None:
        """Close the other connection of the pair."""
        if self.other is not None:
            self.other.transport.unregisterProducer()
            self.other.transport.loseConnection()


class NearSide(Side):
    """Connection of the initiating queue manager; it is read once the other connection is established."""

    def __init__(self, seen: Counter[str], far: Side, onward: IStreamClientEndpoint) -> None:
        super().__init__(seen)
        self._far = far
        self._onward = onward

    def connectionMade(self) -> None:
        """Connect to the receiver."""
        self.transport.pauseProducing()
        connectProtocol(self._onward, self._far).addCallbacks(self._connected, self._refused)

    def _connected(self, far: Side) -> None:
        self.join(far)
        self.transport.resumeProducing()

    def _refused(self, _: Failure) -> None:
        self.transport.abortConnection()


class Tap(ServerFactory):
    """Accepts the connections of one queue manager, and connects to the other one for each.

    @param sender: the address of the initiating queue manager, also the source of the onward connections.
    @param receiver: the address of the queue manager to connect to.
    """

    noisy = False

    def __init__(self, witness: Witness, reactor: Any, sender: str, receiver: str) -> None:
        self._onward = TCP4ClientEndpoint(reactor, receiver, SESSION_PORT, bindAddress=(sender, 0))
        self._there = witness.seen[sender, receiver]
        self._back = witness.seen[receiver, sender]

    def buildProtocol(self, addr: IAddress | None) -> NearSide:
        """Create both sides of a new connection."""
        return NearSide(self._there, Side(self._back), self._onward)


class Witness:
    """Runs the proxies in a thread of its own, and holds their counts.

    @ivar seen: the number of forwarded packets of each kind, by the addresses of their sender and receiver.
    @cvar tap_class: the class of the proxies.
    """

    tap_class: Callable[[Any, Any, str, str], Tap] = Tap

    def __init__(self) -> None:
        from twisted.internet import reactor

        self._reactor: Any = reactor
        self._thread = threading.Thread(
            target=self._reactor.run, kwargs={"installSignalHandlers": False}, daemon=True
        )
        self.seen: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._reactor.callFromThread(self._reactor.stop)
        self._thread.join()

    def tap(self, sender: str, receiver: str) -> str:
        """Start a proxy between two addresses; return the address to which C{sender} has to connect."""
        endpoint = TCP4ServerEndpoint(self._reactor, 0, interface="127.0.0.1")
        tap = self.tap_class(self, self._reactor, sender, receiver)
        host = blockingCallFromThread(self._reactor, endpoint.listen, tap).getHost()
        return f"{host.host}:{host.port}"
