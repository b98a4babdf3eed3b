"""The input of signatures equals the lists of the documents, byte for byte."""

from __future__ import annotations

from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.packet.signature_input import SIGNATURE_INPUTS
from msmq.structures.packet.user_message_view import UserMessageView
from tests.signed_messages import CHANGES, COVERED, Fields

SEVERAL = ("TCP:127.0.0.3\\private$\\plain", "OS:gamma\\private$\\others")


class SignatureInputTests(SynchronousTestCase):
    """L{SIGNATURE_INPUTS}, compared with a second list that was written from the documents."""

    def check(self, **fields: Any) -> None:
        """All three, of one message."""
        message = Fields(**fields)
        view = UserMessageView(message.packet())
        for level, make in SIGNATURE_INPUTS.items():
            self.assertEqual(make(view), message.signed_over(level), (level, fields))

    def test_each_field(self) -> None:
        """Every field in its order, with each of its values (MQMQ-2.5.1-01)."""
        self.check()
        for name, value in CHANGES.items():
            self.check(**{name: value})
            self.check(**{name: value}, destinations=SEVERAL)

    def test_without_fields(self) -> None:
        """A field that is not there contributes nothing, but for ConnectorType; lengths of all kinds."""
        self.check(response="", admin="", label="", extension=b"", body=b"", connector=None)
        for length in range(5):
            self.check(body=b"b" * length, extension=b"e" * (length + 1), label="l" * length)
            self.check(destination=f"OS:h\\q{'x' * length}", admin=f"OS:h\\{'y' * (length + 1)}")

    def test_what_is_covered(self) -> None:
        """A change of a covered field changes what is signed; that of any other does not."""
        original = Fields(destinations=SEVERAL)
        changes = {**CHANGES, "destinations": SEVERAL[:1]}
        for name, value in changes.items():
            changed = UserMessageView(Fields(**{**attrs.asdict(original), name: value}).packet())
            for level, make in SIGNATURE_INPUTS.items():
                is_changed = make(changed) != make(UserMessageView(original.packet()))
                self.assertEqual(is_changed, name in COVERED[level], (name, level))

    def test_security_header(self) -> None:
        """A SecurityHeader is not a part of it, so it may be made before the header."""
        message = Fields()
        signed = UserMessageView(message.with_security(b"\1" * 28, b"signature", b"certificate"))
        for level, make in SIGNATURE_INPUTS.items():
            self.assertEqual(make(signed), message.signed_over(level))

    def test_the_order_of_versions(self) -> None:
        """A receiver tries 2.0, then 1.0, then 3.0 (reading 71)."""
        self.assertEqual([level.value for level in SIGNATURE_INPUTS], [3, 1, 5])
