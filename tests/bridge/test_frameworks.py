"""Headers of NServiceBus and Rebus cross the bridge as their own transports have them on each side."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.bridge.inward import map_inward
from msmq.bridge.native_headers import read_extension, write_extension
from msmq.bridge.outward import map_outward
from msmq.bridge.rules import InwardRules, OutwardRules
from msmq.interfaces.bridge_messages import AmqpProperties, MessageForQueue
from tests.bridge.test_mapping import ANSWERS, REQUEST, published, queued

MESSAGE = "3f0a2c44-1f4e-4a3e-8f3d-0d6b8f5c0001"
CONVERSATION = "3F0A2C44-1F4E-4A3E-8F3D-0D6B8F5C0002"
KIND = "Shop.Orders.PlaceOrder, Shop.Orders, Version=1.0.0.0; Shop.Orders.ICommand, Shop.Orders"
BUS = {
    "NServiceBus.MessageId": MESSAGE,
    "NServiceBus.CorrelationId": CONVERSATION,
    "NServiceBus.ReplyToAddress": "answers@ALPHA",
    "NServiceBus.ContentType": "text/xml",
    "NServiceBus.EnclosedMessageTypes": KIND,
}
REBUS = {
    "rbs2-msg-id": MESSAGE,
    "rbs2-corr-id": CONVERSATION,
    "rbs2-return-address": "answers@ALPHA",
    "rbs2-content-type": "application/json;charset=utf-8",
    "rbs2-msg-type": "Shop.Orders.PlaceOrder, Shop.Orders",
}
OUT = OutwardRules(route="alpha/out", exchange="orders", replies={ANSWERS: "answers"})
IN = InwardRules(route="alpha/in", replies={ANSWERS: "answers"})


class FrameworkTests(SynchronousTestCase):
    """Endpoints that have moved, and those that have not."""

    def out(self, headers: dict[str, str], **properties: Any) -> AmqpProperties:
        message = queued(extension=write_extension(headers), **properties)
        return map_outward(message, OUT).properties

    def back(self, **properties: Any) -> tuple[MessageForQueue, dict[str, str]]:
        message = map_inward(published(**properties), IN)
        headers = read_extension(message.extension)
        assert headers is not None
        return message, headers

    def test_properties_of_a_broker(self) -> None:
        """Identifier, correlation, type, content type and reply-to are those of the framework."""
        for headers, content, address in (
            (BUS, "text/xml", "NServiceBus.ReplyToAddress"),
            (REBUS, "application/json;charset=utf-8", "rbs2-return-address"),
        ):
            found = self.out(headers)
            self.assertEqual((found.message_id, found.correlation_id), (MESSAGE, CONVERSATION))
            self.assertEqual((found.type, found.content_type), ("Shop.Orders.PlaceOrder", content))
            self.assertEqual((found.reply_to, found.headers[address]), ("answers", "answers"))

    def test_response_queue_without_a_queue_of_the_broker(self) -> None:
        """An address for which no queue of the broker stands is left as it is."""
        found = self.out({**BUS, "NServiceBus.ReplyToAddress": "other@GAMMA"})
        self.assertEqual((found.reply_to, found.headers["NServiceBus.ReplyToAddress"]), (None, "other@GAMMA"))

    def test_unusable_values(self) -> None:
        """Values that AMQP has no space for stay headers alone."""
        found = self.out({**BUS, "NServiceBus.MessageId": "x" * 256, "NServiceBus.EnclosedMessageTypes": ""})
        self.assertEqual((found.message_id, found.type), (REQUEST, None))
        self.assertEqual(found.headers["NServiceBus.MessageId"], "x" * 256)

    def test_headers_of_msmq(self) -> None:
        """What the transport for the broker puts into properties alone becomes headers in the Extension."""
        message, headers = self.back(
            headers={"NServiceBus.MessageIntent": "Send"},
            message_id=MESSAGE,
            correlation_id=CONVERSATION,
            content_type="text/xml",
            type="Shop.Orders.PlaceOrder",
            reply_to="answers",
        )
        self.assertTrue(message.extension.startswith(b'<?xml version="1.0"?><ArrayOfHeaderInfo>'))
        self.assertEqual({name: headers[name] for name in BUS}, {**BUS, **_FROM_PROPERTIES})
        self.assertEqual(
            (message.properties["response_queue"], message.properties["correlation_id"]),
            (ANSWERS, f"{{{CONVERSATION.lower()}}}\\0"),
        )

    def test_headers_win_over_properties(self) -> None:
        """Headers that the framework has written itself are kept."""
        _, headers = self.back(headers=REBUS, message_id="another", type="another", reply_to="amq.gen-1")
        self.assertEqual({name: headers[name] for name in REBUS}, REBUS)

    def test_round_trip(self) -> None:
        """A message that crosses the bridge twice has its headers of before."""
        for sent in (BUS, REBUS):
            out = map_outward(queued(extension=write_extension(sent)), OUT)
            back = read_extension(map_inward(out, IN).extension)
            assert back is not None
            self.assertEqual({name: back[name] for name in sent}, sent)

    def test_other_messages_are_not_changed(self) -> None:
        """A message without headers of a framework gets none."""
        _, headers = self.back(message_id="1", reply_to="answers", headers={"tenant": "x"})
        self.assertEqual(set(headers), {"tenant", "message-id", "reply-to", "msmq-hops", "msmq-origin"})


_FROM_PROPERTIES = {"NServiceBus.EnclosedMessageTypes": "Shop.Orders.PlaceOrder"}
