"""BETA, a whole queue manager, receives from a plain peer, and the messages that the peer sends to it."""

from __future__ import annotations

from typing import Any

from tests.nodes.scripted import Peer, ScriptedTestCase, transactional

X = 1_700_000_000 << 32 | 1
NEGATIVE_ARRIVAL, POSITIVE_RECEIVE, NEGATIVE_RECEIVE = 4, 2, 8
ADMIN = "TCP:127.0.0.4\\private$\\admin"
EXPRESS: dict[str, Any] = {"is_transactional": False, "is_recoverable": False}
RECOVERABLE: dict[str, Any] = {"is_transactional": False}
PLAIN = "TCP:127.0.0.3\\private$\\plain"


def chain(first: int, last: int, sequence: int = X, **kwargs: Any) -> list[bytes]:
    """Messages of a sequence, each after the one before."""
    return [
        transactional(b"%d" % each, (sequence, each, each - 1), **kwargs) for each in range(first, last + 1)
    ]


def express(body: bytes, **kwargs: Any) -> bytes:
    """An express message for BETA's queue C{plain}."""
    return transactional(body, (0, 0, 0), destination=PLAIN, **EXPRESS, **kwargs)


def recoverable(message_id: int, body: bytes = b"r", **kwargs: Any) -> bytes:
    """A recoverable message, by default for BETA's queue C{plain}."""
    fields = {"destination": PLAIN, **RECOVERABLE, **kwargs}
    return transactional(body, (0, 0, 0), message_id=message_id, **fields)


class ReceiverTestCase(ScriptedTestCase):
    """GAMMA dials BETA, which has a transactional queue and another."""

    def setUp(self) -> None:
        super().setUp()
        self.path = self.queue(self.beta, transactional=True)
        self.plain = self.queue(self.beta, "plain")
        self.peer = self.dial()

    def say(self, *packets: bytes, seconds: float = 0.1) -> None:
        self.peer.send(*packets)
        self.clock.advance(seconds)

    def check_counts(self, peer: Peer | None = None) -> None:
        """The counts of the peer and of BETA agree, so the session continues and acknowledges all of them."""
        peer = peer or self.peer
        peer.send(express(b""))
        self.say_header(peer)
        self.clock.advance(25)
        self.assertFalse(peer.is_lost)
        self.assertEqual(peer.acks[-1][0], peer.sent)
        self.assertEqual(self.named(peer), peer.recoverable_sent)

    def say_header(self, peer: Peer) -> None:
        """A message that carries the true counts, itself included."""
        peer.sent += 1
        header = peer.header()
        peer.say(express(b"", header=header))

    def named(self, peer: Peer) -> int:
        """The number of recoverable messages that were acknowledged, each of them once."""
        numbers: list[int] = []
        for _, base, flags, *_ in peer.acks:
            numbers += [base + bit for bit in range(32) if flags >> bit & 1]
        self.assertEqual(numbers, sorted(set(numbers)))
        return len(numbers)
