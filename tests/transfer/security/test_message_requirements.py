"""Every requirement of a queue for signature and privacy, as a table. [MS-MQDMPR] 3.1.1.2."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.definition import QueuePrivacy
from msmq.structures.packet.message_class import MessageClass
from msmq.transfer.security.message_requirements import requirement_fault

NONE, OPTIONAL, BODY = QueuePrivacy.NONE, QueuePrivacy.OPTIONAL, QueuePrivacy.BODY
SIGNATURE, ENCRYPTION = MessageClass.NACK_BAD_SIGNATURE, MessageClass.NACK_BAD_ENCRYPTION


class RequirementTests(SynchronousTestCase):
    """Refusals by a queue before a signature is verified."""

    def test_each_refusal(self) -> None:
        """A line for each combination; the signature is checked before the privacy of the body."""
        for authenticate, privacy, is_signed, is_encrypted, expected in (
            (False, OPTIONAL, False, False, None),
            (False, OPTIONAL, True, True, None),
            (False, NONE, False, False, None),
            (False, NONE, True, False, None),
            (False, NONE, False, True, ENCRYPTION),
            (False, BODY, False, True, None),
            (False, BODY, True, False, ENCRYPTION),
            (True, OPTIONAL, True, False, None),
            (True, OPTIONAL, False, True, SIGNATURE),
            (True, BODY, False, False, SIGNATURE),
            (True, BODY, True, False, ENCRYPTION),
            (True, BODY, True, True, None),
            (True, NONE, True, True, ENCRYPTION),
        ):
            fault = requirement_fault(
                "private$\\orders",
                authenticate=authenticate,
                privacy=privacy,
                is_signed=is_signed,
                is_encrypted=is_encrypted,
            )
            self.assertEqual(None if fault is None else fault.message_class, expected)
            if fault is not None:
                self.assertIn("private$\\orders accepts ", fault.reason)
