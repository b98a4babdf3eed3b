"""Basic properties as they are sent, beside pika's own encoding of them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pika.spec import BasicProperties
from twisted.trial.unittest import SynchronousTestCase

from msmq.bridge_service.rabbitmq.basic_properties import to_pika
from msmq.interfaces.bridge_messages import AmqpProperties

_SHORT = st.none() | st.text(max_size=60)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.text(max_size=300)
    | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def _properties(draw: st.DrawFn) -> dict[str, Any]:
    texts = ("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id")
    return {
        **{name: draw(_SHORT) for name in (*texts, "type", "user_id", "app_id")},
        "headers": draw(st.dictionaries(st.text(max_size=20), _VALUES, max_size=5)),
        "delivery_mode": draw(st.sampled_from((None, 1, 2))),
        "priority": draw(st.none() | st.integers(0, 255)),
        "timestamp": draw(st.none() | st.integers(0, (1 << 64) - 1)),
    }


class EncodingTests(SynchronousTestCase):
    """Encoding, whatever a message has."""

    @given(_properties())
    def test_as_pika(self, properties: dict[str, Any]) -> None:
        """The bytes are those that pika would send, also if they were sent before."""
        headers = properties["headers"] or None
        expected = b"".join(BasicProperties(**{**properties, "headers": headers}).encode())
        for _ in range(2):
            self.assertEqual(b"".join(to_pika(AmqpProperties(**properties)).encode()), expected)

    def test_kinds_of_values(self) -> None:
        """Doubles are sent, and what a mapping's class may add: decimals and times."""
        moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        headers = {"double": 4.0, "decimal": Decimal("1.25"), "moment": moment, "list": (1, 2)}
        read = BasicProperties()
        read.decode(b"".join(to_pika(AmqpProperties(headers=headers)).encode()))
        self.assertEqual(read.headers, {**headers, "list": [1, 2]})

    def test_equal_values_of_other_types(self) -> None:
        """A value is sent as what it is, though an equal one of another type was sent before."""
        for value in (1, True, 1.0, "1"):
            read = BasicProperties()
            read.decode(b"".join(to_pika(AmqpProperties(headers={"value": value})).encode()))
            assert read.headers is not None
            found = read.headers["value"]
            self.assertEqual((found, isinstance(found, bool)), (value, value is True))

    def test_no_encoding(self) -> None:
        """What has no encoding is refused, and the error names the property or the field."""
        deep: list[Any] = []
        for _ in range(5000):
            deep = [deep]
        for changes, error in (
            ({"headers": {"n": 1 << 63}}, "headers: the field 'n': an integer has more than 64 bits"),
            ({"headers": {"n": object()}}, "headers: the field 'n': a value of object has no encoding"),
            ({"headers": {"n": "\ud800"}}, "headers: the field 'n': 'utf-8' codec"),
            ({"headers": {"n" * 256: 1}}, "a short string has 256 bytes, and the limit is 255"),
            ({"headers": {"n": {"m": {1, 2}}}}, "headers: the field 'n': a value of set has no encoding"),
            ({"headers": {"n": {5: 1}}}, "headers: the field 'n': "),
            ({"headers": {"n": deep}}, "headers: the field 'n': it is nested too deeply"),
            ({"headers": {"n": Decimal("NaN")}}, "headers: the field 'n': "),
            ({"priority": 256}, "priority: "),
            ({"timestamp": -1}, "timestamp: "),
            ({"message_id": "x" * 256}, "message_id: a short string has 256 bytes"),
            ({"message_id": 5}, "message_id: "),
        ):
            with self.subTest(error):
                raised = self.assertRaises(ValueError, to_pika, AmqpProperties(**changes))
                self.assertIn(error, str(raised))
