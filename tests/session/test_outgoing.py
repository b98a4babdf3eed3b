"""L{OutgoingPacket}: what a session is given to send."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.session.outgoing import OutgoingPacket
from tests.session.support import session_ack, session_header, user_packet


class OutgoingPacketTests(SynchronousTestCase):
    def test_only_whole_messages(self) -> None:
        """Anything but the bytes of one UserMessage packet is refused before it can be sent."""
        packet = user_packet(b"body")
        wrong: list[tuple[Any, str]] = [
            (bytearray(packet), "packet is a bytearray, it has to be bytes"),
            (None, "it has to be bytes"),
            (b"", "packet is not a UserMessage packet: "),
            (packet[:-1], "packet is not a UserMessage packet: "),
            (session_ack(session_header()), "packet is not a UserMessage packet: "),
        ]
        for value, words in wrong:
            error = self.assertRaises(LocalProtocolError, OutgoingPacket, value)
            self.assertIn(words, str(error))

    def test_delivery(self) -> None:
        """A message says whether the peer has to store it (Flags.DM)."""
        for recoverable in (True, False):
            message = OutgoingPacket(user_packet(recoverable=recoverable))
            self.assertIs(message.is_recoverable, recoverable)
