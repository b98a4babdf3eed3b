"""[MS-MQQB] 3.1.5.1: what a session does with known and with unknown packets."""

from twisted.trial.unittest import SynchronousTestCase

from msmq.session.effects import CloseReason
from tests.builders import patched
from tests.session.support import open_acceptor
from tests.vectors import vector

PARAMETERS = vector("mqqb-4.1.5-connection-parameters-request")
SESSION_ACK = vector("mqqb-4.1.8-session-ack")
USER_MESSAGE = vector("mqqb-4.1.7-user-message")
MESSAGE_CLASS = 138
"""Where MessageClass lies in frame 7."""


class RefusedPacketTests(SynchronousTestCase):
    def assert_closes(self, packet: bytes) -> None:
        """The session closes over the packet, without a word, and takes nothing that follows."""
        driven = open_acceptor()
        driven.receive(packet + USER_MESSAGE)
        self.assertIs(driven.close_reason, CloseReason.MALFORMED_PACKET)
        self.assertEqual(driven.written, b"")
        self.assertEqual(driven.bodies, [])

    def test_connection_parameters_of_another_size(self) -> None:
        """MQQB-2.2.2-02: PT 3 with a PacketSize of 0x1C, or with that of another packet, closes."""
        for size in (0x1C, 0x24, 0x23C):
            changed = patched(PARAMETERS, 8, size.to_bytes(4, "little"))
            self.assert_closes(changed[:size].ljust(size, b"\0"))

    def test_a_session_ack_of_another_size(self) -> None:
        """MQQB-2.2.6-07: PT 1 with a PacketSize of 0x20, or with that of another packet, closes."""
        for size in (0x20, 0x23C):
            changed = patched(SESSION_ACK, 8, size.to_bytes(4, "little"))
            self.assert_closes(changed[:size].ljust(size, b"\0"))

    def test_a_session_ack_without_its_header(self) -> None:
        """MQQB-3.1.5.1.1-03: PT 1 without SH closes; frame 8, which has it, is an acknowledgement."""
        self.assert_closes(patched(SESSION_ACK, 2, b"\x0b"))
        driven = open_acceptor()
        driven.send(USER_MESSAGE)
        driven.receive(SESSION_ACK)
        self.assertIsNone(driven.close_reason)

    def test_messages_of_every_class_are_delivered(self) -> None:
        """MQQB-3.1.5.1.1-06: reports, acknowledgements and classes of applications are user messages."""
        for message_class in (0x0000, 0x0001, 0x0002, 0x00FF, 0x4000, 0x8000, 0xC000, 0x0123):
            driven = open_acceptor()
            driven.receive(patched(USER_MESSAGE, MESSAGE_CLASS, message_class.to_bytes(2, "little")))
            self.assertIsNone(driven.close_reason)
            self.assertEqual(driven.bodies, [USER_MESSAGE[222:2222]])
