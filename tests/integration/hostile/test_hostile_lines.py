"""Log lines of a server under hostile peers."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.settings import SessionSettings
from tests.builders import ALPHA, numbered_packet, parameters
from tests.integration.hostile.attacked_server import PATIENT
from tests.integration.hostile.plain_sockets import ServerProcess, own_address

CONNECTIONS = 150


class LineTests(SynchronousTestCase):
    """A server with the default limit."""

    def test_lines_are_bounded(self) -> None:
        """Sessions that end by garbage, and refused messages, leave fewer than 100 lines a minute."""
        lines = SessionSettings().log_lines
        server = ServerProcess(self, own_address(self), PATIENT, log_lines=lines)
        before = len(server.log)
        for number in range(CONNECTIONS):
            peer = server.connect() if number % 2 else server.open()
            if number % 2:
                peer.send(parameters())
            else:
                peer.send(numbered_packet(b"x", destination=server.name("missing"), source=ALPHA))
                peer.send(b"garbage" * 20)
            peer.read_to_end()
            peer.close()
        said = server.log[before:]
        # Of the sessions a quarter of the limit, and what comes back to it while the test runs.
        self.assertLess(said.count(" closed: "), lines // 2, said)
        self.assertLess(said.count("not accepted: "), 20, said)
        self.assertLess(len(said.splitlines()), 100, said)
        self.assertLess(len(said), 20_000)
