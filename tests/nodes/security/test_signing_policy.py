"""Operators that accept weak hashes, some versions of signatures alone, or long keys alone."""

from __future__ import annotations

from struct import unpack
from uuid import UUID

from msmq.structures.algorithms import AuthenticationLevel, HashAlgorithm
from msmq.structures.packet.signature_input import signature_input_2_0
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.security.signature_rules import SigningPolicy
from tests.builders import GAMMA, user_packet
from tests.nodes.signed import SigningTestCase
from tests.signed_messages import Fields


class WeakTests(SigningTestCase):
    """An operator that permits weak hashes."""

    policy = SigningPolicy(hashes=frozenset(HashAlgorithm))

    def test_hashes(self) -> None:
        """Allowed hash algorithms are accepted."""
        for algorithm in HashAlgorithm:
            self.say(self.signed(self.fields(), algorithm=algorithm))
        self.assertEqual(len(self.arrived()), len(HashAlgorithm))


class RunTogetherTests(SigningTestCase):
    """[MS-MQMQ] 2.5: the fields are signed in a row, and nothing says where one ends."""

    def believed(self, moved: Fields, over: bytes, level: AuthenticationLevel) -> None:
        """A message is taken for one that was signed as this, if such are believed."""
        self.assertEqual(moved.signed_over(level), over)
        self.say(self.signed(moved, over=over))
        self.assertEqual(
            [(view.authentication_level, bytes(view.body)) for view in self.arrived(self.strict)],
            [(level, moved.body)] if level in self.policy.versions else [],
        )

    def test_as_1_0(self) -> None:
        """A message signed as 2.0 for one queue is valid as 1.0 for any, with a longer body."""
        over = self.fields().signed_over(3)
        moved = self.fields(
            body=over[24:], label="", response="", admin="", destination="TCP:127.0.0.3\\private$\\strict"
        )
        self.believed(moved, over, AuthenticationLevel.SIG_1_0)

    def test_as_3_0(self) -> None:
        """And as 3.0, with its body as it was, if it was for a PRIVATE name, and its body of no type."""
        plain = user_packet(b"the body", label="label", private_number=0x1B, queue_manager=GAMMA)
        over = signature_input_2_0(UserMessageView(plain))
        # SourceQueueManager, six numbers, ConnectorType and the number of the queue; four bytes are too many.
        extension, end = over[-46:-42], over[-42:]
        recoverable, priority, journals, acknowledge, message_class, body_type = unpack("<BBBBHI", end[16:26])
        moved = Fields(
            correlation_id=bytes(20),
            application_tag=0,
            response="",
            admin="",
            extension=extension,
            source=UUID(bytes_le=end[:16]),
            recoverable=recoverable,
            priority=priority,
            journal=bool(journals & 2),
            dead_letter=bool(journals & 1),
            acknowledge=acknowledge,
            message_class=message_class,
            body_type=body_type,
            connector=UUID(bytes_le=end[26:]),
            destination="TCP:127.0.0.3\\private$\\strict",
        )
        self.believed(moved, over, AuthenticationLevel.SIG_3_0)


class VersionTests(RunTogetherTests):
    """An operator that accepts signatures of MSMQ 2.0 alone."""

    policy = SigningPolicy(versions=frozenset({AuthenticationLevel.SIG_2_0}))

    def test_versions(self) -> None:
        """The others are refused by their names, though they hold."""
        several = ("TCP:127.0.0.3\\private$\\plain", "OS:other\\q")
        for name, packet in (
            ("1.0", self.signed(self.fields(), 1)),
            ("3.0", self.signed(self.fields(), 5)),
            ("3.0", self.signed(self.fields(destinations=several), 5)),
        ):
            self.assertEqual(
                self.refused(packet),
                f'its signature is that of MSMQ {name}, and [security] signatures does not have "{name}"',
            )
        self.say(self.signed(self.fields(), 3))
        self.assertEqual(len(self.arrived()), 1)


class LongKeyTests(SigningTestCase):
    """An operator that requires longer keys than exist."""

    policy = SigningPolicy(smallest_key=4096)

    def test_keys(self) -> None:
        """A key that is shorter than the smallest allowed is refused by that line."""
        reason = self.refused(self.signed(self.fields()))
        self.assertIn("has a key of 2048 bits, and [security] smallest_key is 4096", reason)
