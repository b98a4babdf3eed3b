"""Properties of a message as query parameters and record headers have them."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.control.server.messages.properties import flag, number, read_message, seconds
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.structures.algorithms import PrivacyLevel
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.status import MQError, Status

REFERENCE = "{12345678-9ABC-DEF0-1234-56789ABCDEF0}\\17"


class ReadMessageTests(SynchronousTestCase):
    """Texts and JSON values become a message."""

    def refusal(self, **properties: object) -> MQError:
        with self.assertRaises(MQError) as raised:
            read_message(properties, b"")
        error: MQError = raised.exception
        return error

    def test_no_properties_make_the_default_message(self) -> None:
        """A body alone is an express message of priority 3 with body type 0."""
        self.assertEqual(read_message({}, b"x"), Message(body=b"x"))

    def test_texts_and_json_values_say_the_same(self) -> None:
        """The texts of a query and the values of JSON produce the same message."""
        texts = {"priority": "7", "journal": "true", "acknowledge": "reach,receive", "application_tag": "9"}
        values = {"priority": 7, "journal": True, "acknowledge": ["reach", "receive"], "application_tag": 9}
        self.assertEqual(read_message(texts, b""), read_message(values, b""))

    def test_numbers_have_both_bounds(self) -> None:
        """A whole number that is too large is not said to be none."""
        for value in ("-1", "x", 1 << 63, str(1 << 80)):
            with self.assertRaises(MQError) as raised:
                number("count", value)
            self.assertIn(f"count is a whole number from 0 to {(1 << 63) - 1}, not ", str(raised.exception))

    def test_every_property_arrives(self) -> None:
        """Each property of the contract reaches the message."""
        queue = "DIRECT=OS:beta\\private$\\admin"
        trace = UUID("11111111-2222-3333-4444-555555555555")
        message = read_message(
            {
                "label": "Grüße",
                "body_type": 8,
                "priority": 0,
                "delivery": "recoverable",
                "transactional": False,
                "time_to_reach_queue": 60,
                "time_to_be_received": "120",
                "journal": "",
                "dead_letter": "1",
                "acknowledge": "full-receive",
                "admin_queue": queue,
                "response_queue": queue,
                "correlation_id": REFERENCE,
                "application_tag": 0xFFFFFFFF,
                "extension_base64": "AAEC",
                "trace": str(trace),
                "privacy_level": "advanced",
            },
            b"body",
        )
        expected = Message(
            body=b"body",
            label="Grüße",
            body_type=8,
            priority=0,
            delivery=Delivery.RECOVERABLE,
            time_to_reach_queue=60,
            time_to_be_received=120,
            journal=True,
            dead_letter=True,
            acknowledge=Acknowledge(0x0E),
            admin_queue=parse_format_name(queue),
            response_queue=parse_format_name(queue),
            correlation_id=UUID("12345678-9abc-def0-1234-56789abcdef0").bytes_le + b"\x11\0\0\0",
            application_tag=0xFFFFFFFF,
            extension=b"\0\1\2",
            trace=trace,
            privacy_level=PrivacyLevel.ADVANCED,
        )
        self.assertEqual(message, expected)

    def test_kinds_of_acknowledgement(self) -> None:
        """Each name asks for what [MS-MQDMPR] 3.1.1.12 says of it."""
        asked = {
            "none": 0,
            "reach": 1,
            "receive": 2,
            "nack-reach": 4,
            "full-reach": 5,
            "nack-receive": 12,
            "full-receive": 14,
        }
        for name, flags in asked.items():
            with self.subTest(name=name):
                self.assertEqual(read_message({"acknowledge": name}, b"").acknowledge, flags)

    def test_unknown_property_is_named(self) -> None:
        """An unknown property is refused by its name, not ignored."""
        error = self.refusal(colour="red")
        self.assertEqual(error.status, Status.MQ_ERROR_INVALID_PARAMETER)
        self.assertIn("'colour'", error.detail)

    def test_values_of_the_wrong_kind_are_named(self) -> None:
        """Each property refuses what is not one of its values, and says which property it is."""
        wrong: dict[str, object] = {
            "label": 5,
            "priority": "high",
            "body_type": True,
            "application_tag": -1,
            "time_to_reach_queue": 1.5,
            "delivery": ["express"],
            "journal": "maybe",
            "acknowledge": [7],
            "extension_base64": "=",
            "admin_queue": 7,
            "privacy_level": "secret",
        }
        for name, value in wrong.items():
            with self.subTest(name=name):
                error = self.refusal(**{name: value})
                self.assertEqual(error.status, Status.MQ_ERROR_INVALID_PARAMETER)
                self.assertIn(name, error.detail)

    def test_malformed_names_keep_their_status(self) -> None:
        """A malformed format name or identifier is refused as the documents name it."""
        error = self.refusal(admin_queue="DIRECT=nonsense")
        self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_FORMATNAME)
        self.assertIn("admin_queue", error.detail)
        self.assertEqual(self.refusal(trace="x").status, Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE)
        self.assertEqual(self.refusal(correlation_id="x").status, Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE)

    def test_ranges_are_those_of_the_message(self) -> None:
        """A number outside the range of its property, and a label that is too long, are refused."""
        self.assertEqual(self.refusal(priority=8).status, Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE)
        self.assertEqual(self.refusal(label="x" * 250).status, Status.MQ_ERROR_LABEL_TOO_LONG)


class ParameterTests(SynchronousTestCase):
    """Parameters that are no properties."""

    def test_seconds(self) -> None:
        """Times have decimals, and are neither negative nor endless."""
        self.assertEqual(seconds("timeout", "1.5"), 1.5)
        self.assertEqual(seconds("timeout", "0"), 0.0)
        for value in ("-1", "nan", "inf", "soon", "", None, "1e999"):
            with self.subTest(value=value), self.assertRaises(MQError):
                seconds("timeout", value)

    def test_flag_without_a_value_is_set(self) -> None:
        """C{?peek} alone means C{?peek=true}."""
        self.assertTrue(flag("peek", ""))
        self.assertFalse(flag("peek", "FALSE"))
