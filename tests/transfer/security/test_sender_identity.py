"""Every rule about the sender that a signed message states, as tables. [MS-MQQB] 3.1.5.8.3."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.security_header import SenderIdType
from msmq.transfer.security.message_requirements import SecurityFault
from msmq.transfer.security.sender_identity import (
    NoStatedSender,
    StatedQueueManager,
    StatedUser,
    account_of,
    stated_sender,
    unproven_fault,
)
from msmq.wire.sid import parse_sid

ALPHA, BETA = UUID(int=1), UUID(int=2)
ALICE = "S-1-5-21-1-2-3-1001"
SID = parse_sid(ALICE)
NONE, USER, QUEUE_MANAGER = SenderIdType.NONE, SenderIdType.SID, SenderIdType.QUEUE_MANAGER


class SenderIdentityTests(SynchronousTestCase):
    """A message from ALPHA with a valid signature."""

    def test_stated(self) -> None:
        """No sender, a user, or the queue manager that has sent the message."""
        for kind, identifier, expected in (
            (NONE, b"", NoStatedSender()),
            (NONE, SID, NoStatedSender()),
            (USER, SID, StatedUser(ALICE)),
            (QUEUE_MANAGER, ALPHA.bytes_le, StatedQueueManager(ALPHA)),
        ):
            self.assertEqual(stated_sender(kind, identifier, ALPHA.bytes_le), expected)

    def test_refused(self) -> None:
        """Another queue manager, what is no identifier, and types that no document has."""
        for kind, identifier, reason in (
            (QUEUE_MANAGER, BETA.bytes_le, "by another queue manager"),
            (QUEUE_MANAGER, b"", "by another queue manager"),
            (QUEUE_MANAGER, SID, "by another queue manager"),
            (USER, b"", "of 0 bytes is not a SID"),
            (USER, ALPHA.bytes_le, "of 16 bytes is not a SID"),
            (3, SID, "of type 3, which is unknown"),
            (15, SID, "of type 15, which is unknown"),
            (3, b"", "of 0 bytes is not a SID"),
        ):
            found = stated_sender(kind, identifier, ALPHA.bytes_le)
            assert isinstance(found, SecurityFault)
            self.assertEqual(found.message_class, MessageClass.NACK_BAD_SIGNATURE)
            self.assertIn(reason, found.reason)

    def test_unproven(self) -> None:
        """A sender that is not authenticated is refused by queues that require authentication alone."""
        self.assertIsNone(unproven_fault(r".\private$\q", "it has no sender", authenticate=False))
        found = unproven_fault(r".\private$\q", "it has no sender", authenticate=True)
        assert found is not None
        self.assertEqual(found.message_class, MessageClass.NACK_BAD_SIGNATURE)
        self.assertIn(r".\private$\q accepts only authenticated", found.reason)
        self.assertIn("it has no sender", found.reason)

    def test_accounts(self) -> None:
        """A user has its own rights, a queue manager those of everyone, others have none."""
        everyone = parse_sid("S-1-1-0")
        for sender, kind, expected in (
            (None, None, None),
            (None, QUEUE_MANAGER, None),
            (SID, USER, SID),
            (ALPHA.bytes_le, QUEUE_MANAGER, everyone),
            (SID, None, SID),
        ):
            self.assertEqual(account_of(sender, kind), expected)
