"""A server that peers attack, and a session that has to stay healthy meanwhile."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.builders import (
    ALPHA,
    GAMMA,
    established,
    numbered_packet,
    session_ack,
    session_header,
)
from tests.integration.hostile.plain_sockets import (
    ServerProcess,
    own_address,
)

IMPATIENT = """
[timers]
session_initialization = 0.3
session_cleanup = 1
linger = 0.3
"""
PATIENT = """
[timers]
session_initialization = 0.3
linger = 0.3
"""


def of_type(packet: bytes, kind: int) -> bytes:
    """The same internal packet with another InternalHeader.PT."""
    return packet[:18] + bytes([kind]) + packet[19:]


class HealthySession:
    """A well-behaved peer that detects effects of the others."""

    def __init__(self, test: SynchronousTestCase, server: ServerProcess) -> None:
        self._test = test
        self._server = server
        server.client.create_queue(".\\private$\\healthy", {})
        self._peer = server.open(window_size=2, client=GAMMA)
        self._count = 0

    def exchange(self) -> None:
        """Send a message, see it acknowledged at once, and find it in its queue."""
        self._count += 1
        body = b"%d" % self._count
        self._peer.send(numbered_packet(body, destination=self._server.name("healthy"), source=GAMMA))
        expected = session_ack(session_header(received=self._count))
        self._test.assertEqual(self._peer.read(36), expected)
        self._test.assertEqual(self._server.bodies(queue=".\\private$\\healthy"), [body])


class HostilePeersTestCase(SynchronousTestCase):
    """A server with short timers, and a session that stays healthy to the end of each test."""

    configuration = PATIENT

    def setUp(self) -> None:
        self.server = ServerProcess(self, own_address(self), self.configuration)
        self.healthy = HealthySession(self, self.server)
        self.healthy.exchange()

    def assert_closes(self, *sent: bytes, answer: bytes = b"", opened: bool = False, reason: str) -> None:
        """This input gets this answer and no other, and its connection alone is closed for this reason."""
        before = self.server.logged(f"closed: {reason}")
        peer = self.server.open() if opened else self.server.connect()
        peer.send(*sent)
        self.assertEqual(peer.read_to_end(), answer)
        peer.close()
        self.server.wait_for(f"closed: {reason}", before + 1)
        self.healthy.exchange()

    @property
    def establish_answer(self) -> bytes:
        """The answer to an EstablishConnection packet."""
        return established(ALPHA, self.server.identifier)
