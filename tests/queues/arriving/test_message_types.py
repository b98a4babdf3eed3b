"""The types of the attributes of a message that an application sends."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.queues.arriving.message import Delivery, Message
from msmq.queues.arriving.message_types import check_types
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.status import MQError, Status

_NAME = parse_format_name("DIRECT=OS:BETA\\private$\\answers")
VALUES: dict[str, tuple[object, ...]] = {
    "bytes": (b"x", bytearray(b"x"), memoryview(b"x")),
    "a str": ("x",),
    "an int": (1,),
    "an int, in seconds": (1,),
    "a bool": (True,),
    "a format name": (_NAME,),
    "a UUID": (UUID(int=1),),
    "a Delivery": (Delivery.EXPRESS,),
}
"""By the words of an error, values of the type."""
TYPES = {
    "body": "bytes",
    "label": "a str",
    "body_type": "an int",
    "priority": "an int",
    "delivery": "a Delivery",
    "transactional": "a bool",
    "time_to_reach_queue": "an int, in seconds",
    "time_to_be_received": "an int, in seconds",
    "journal": "a bool",
    "dead_letter": "a bool",
    "acknowledge": "an int",
    "admin_queue": "a format name",
    "response_queue": "a format name",
    "correlation_id": "bytes",
    "application_tag": "an int",
    "extension": "bytes",
    "trace": "a UUID",
    "message_class": "an int",
    "connector_type": "a UUID",
    "hash_algorithm": "an int",
    "encryption_algorithm": "an int",
    "dead_letter_queue": "a str",
    "privacy_level": "an int",
    "authentication_level": "an int",
    "sender_certificate": "a str",
    "sender_identifier_type": "an int",
}
OPTIONAL = (
    "time_to_reach_queue",
    "admin_queue",
    "response_queue",
    "trace",
    "connector_type",
    "sender_identifier_type",
)


class TypeTests(SynchronousTestCase):
    """L{check_types}."""

    def refused(self, **values: Any) -> str:
        """See that a message with these values is refused for a type; answers why."""
        with self.assertRaises(MQError) as caught:
            check_types(values, Delivery)
        self.assertEqual(caught.exception.status, Status.MQ_ERROR_ILLEGAL_PROPERTY_VT)
        return str(caught.exception.detail)

    def test_each_attribute(self) -> None:
        """Each attribute accepts its own type, and the error for any other value names both."""
        self.assertEqual(set(TYPES), {field.name for field in attrs.fields(Message)})
        for name, words in TYPES.items():
            for accepted in VALUES[words]:
                check_types({name: accepted}, Delivery)
            for other, values in VALUES.items():
                if other == words or {other, words} <= {"an int", "an int, in seconds"}:
                    continue
                if other == "a bool" and words.startswith("an int"):
                    continue  # A bool is an int.
                with self.subTest(name=name, other=other):
                    detail = self.refused(**{name: values[0]})
                    self.assertIn(f"{name} of a message is ", detail)
                    self.assertIn(f"it has to be {words}", detail)

    def test_none(self) -> None:
        """Only some attributes may be C{None}."""
        for name in TYPES:
            if name in OPTIONAL:
                check_types({name: None}, Delivery)
            else:
                self.refused(**{name: None})

    def test_hints(self) -> None:
        """A text in place of bytes is to be encoded, and bytes in place of a text are to be decoded."""
        self.assertTrue(self.refused(body="x").endswith("it has to be bytes; encode the text"))
        self.assertTrue(self.refused(body=1).endswith("it has to be bytes"))
        self.assertTrue(self.refused(label=b"x").endswith("it has to be a str; decode the bytes"))
        self.assertTrue(self.refused(label=1).endswith("it has to be a str"))
        for value in ("x", b"x"):
            self.assertTrue(self.refused(priority=value).endswith("it has to be an int"))

    def test_of_a_message(self) -> None:
        """A message is refused for the first attribute of another type, each time."""
        for _ in range(2):
            wrong: dict[str, Any] = {"body": "text", "label": 1}
            with self.assertRaises(MQError) as caught:
                Message(**wrong)
            self.assertEqual(caught.exception.status, Status.MQ_ERROR_ILLEGAL_PROPERTY_VT)
            self.assertIn("body", caught.exception.detail)
