"""[MS-MQDSSM] 2.4 how single values stand in a directory."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.directory.ldap.entries.values import PRIVACY
from msmq.persistence.definition import QueuePrivacy


class PrivacyTests(SynchronousTestCase):
    """mSMQPrivacyLevel."""

    def test_codes(self) -> None:
        """MQMQ-2.3.1.12-01: 0 only in clear, 1 optional, 2 only encrypted; nothing else is one."""
        for privacy, code in (
            (QueuePrivacy.NONE, b"0"),
            (QueuePrivacy.OPTIONAL, b"1"),
            (QueuePrivacy.BODY, b"2"),
        ):
            self.assertEqual(tuple(PRIVACY.pack(privacy)), (code,))
            self.assertIs(PRIVACY.unpack((code,)), privacy)
        for code in (b"3", b"-1", b"", b"body"):
            with self.assertRaises(ValueError):
                PRIVACY.unpack((code,))
