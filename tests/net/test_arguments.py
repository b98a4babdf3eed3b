"""Arguments of a custom broker are checked where they come in, each by its name."""

from __future__ import annotations

from typing import Any

from msmq import Message, MQError
from msmq.errors import LocalProtocolError
from msmq.net.session_factory import SessionFactory
from msmq.session.outgoing import OutgoingPacket
from msmq.structures.status import Status
from tests.builders import BETA, user_packet
from tests.net.test_session_hooks import Idle
from tests.net.test_session_trouble import TroubleTestCase


class MessageTests(TroubleTestCase):
    """The attributes of a message."""

    def refusal(self, **attributes: Any) -> str:
        """The error of a message with these attributes."""
        error = self.assertRaises(MQError, Message, **attributes)
        self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_PROPERTY_VT)
        return str(error)

    def test_a_text_as_body(self) -> None:
        """A body has no encoding of its own, so a text has to be encoded."""
        self.assertIn(
            "body of a message is a str, it has to be bytes; encode the text", self.refusal(body="text")
        )

    def test_other_types(self) -> None:
        """The error names the attribute, what it is and what it has to be."""
        self.assertIn("label of a message is a bytes, it has to be a str", self.refusal(label=b"a"))
        self.assertIn("extension of a message is a str", self.refusal(extension="a"))
        self.assertIn("delivery of a message is a str", self.refusal(delivery="recoverable"))
        self.assertIn("transactional of a message is a str", self.refusal(transactional="no"))
        self.assertIn("correlation_id of a message is a str", self.refusal(correlation_id="a" * 20))
        self.assertIn(
            "time_to_reach_queue of a message is a float, it has to be an int, in seconds",
            self.refusal(time_to_reach_queue=1.5),
        )
        self.assertIn(
            "response_queue of a message is a bytes, it has to be a format name",
            self.refusal(response_queue=b"DIRECT=OS:ALPHA\\private$\\a"),
        )
        self.assertIn("priority of a message is a NoneType", self.refusal(priority=None))

    def test_names_of_queues_as_text(self) -> None:
        """The text of a format name is taken where a format name is; any other text is refused."""
        message = Message(admin_queue="direct=os:ALPHA\\private$\\a", response_queue=None)
        self.assertEqual(str(message.admin_queue), "DIRECT=OS:ALPHA\\private$\\a")
        for text in ("", ".\\private$\\a", "DIRECT=OS:"):
            error = self.assertRaises(MQError, Message, response_queue=text)
            self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_FORMATNAME)

    def test_the_same_types_again(self) -> None:
        """Arguments that were refused once are refused again."""
        self.assertEqual(self.refusal(body="a"), self.refusal(body="b"))


class FactoryTests(TroubleTestCase):
    """The arguments of a session factory."""

    def refusal(self, **other: Any) -> str:
        """The error of a factory with other arguments."""
        arguments: dict[str, Any] = {
            "identifier": BETA,
            "reactor": self.clock.reactor,
            "clock": self.clock,
        }
        return str(self.assertRaises(LocalProtocolError, SessionFactory, **arguments | other))

    def test_an_identifier_that_is_a_text(self) -> None:
        """It would be noticed at the first handshake only."""
        self.assertEqual(
            self.refusal(identifier="not-a-uuid"),
            "identifier is 'not-a-uuid', a str; it has to be a UUID",
        )

    def test_other_arguments(self) -> None:
        """Each is named, with what it has to be."""
        self.assertEqual(self.refusal(clock=7), "clock is an int; it has to be an IClock")
        self.assertEqual(self.refusal(reactor=7), "reactor is an int; it has to be an IReactorTime")
        self.assertEqual(self.refusal(settings={}), "settings is a dict; it has to be a SessionSettings")
        self.assertEqual(
            self.refusal(allowed="10.0.0.0/8"), "allowed is '10.0.0.0/8', a str; it has to be an AddressSet"
        )
        self.assertIn("protocol is an int; it has to be a SessionProtocol class", self.refusal(protocol=7))

    def test_an_invalid_broker(self) -> None:
        """The first call that it lacks is named."""
        refusal = self.refusal(broker=object())
        self.assertIn("broker is an object, it has to provide IBroker", refusal)
        self.assertIn("session_opened", refusal)
        self.assertNotIn("\n", refusal)
        self.assertIn("messages_arrived", self.refusal(broker=Idle()))

    def test_a_broker_that_is_attached(self) -> None:
        """Likewise."""
        broker: Any = object()
        error = self.assertRaises(LocalProtocolError, self.factory.attach, broker, is_offline=False)
        self.assertIn("IBroker", str(error))


class PersistedTests(TroubleTestCase):
    """The number up to which a broker has stored recoverable messages."""

    def test_beyond_what_arrived(self) -> None:
        """It is refused: later messages would be acknowledged before they are stored."""
        protocol, transport = self.open()
        protocol.dataReceived(user_packet(recoverable=True))
        error = self.assertRaises(LocalProtocolError, protocol.persisted, 33)
        self.assertEqual(
            str(error),
            "persisted(through=33): the last recoverable message that arrived on this session has the"
            " number 1",
        )
        protocol.persisted(1)
        self.clock.advance(1)
        self.assertEqual(transport.value().count(b"LIOR"), 1)
        self.assertTrue(protocol.is_open)


class OutgoingPacketTests(TroubleTestCase):
    """A packet that a broker sends."""

    def refusal(self, packet: Any) -> str:
        """The error of this packet."""
        return str(self.assertRaises(LocalProtocolError, OutgoingPacket, packet))

    def test_invalid_packets(self) -> None:
        """It is refused where it is made, before it can end a session of the peer."""
        self.assertIn("packet is a str, it has to be bytes", self.refusal("text"))
        self.assertIn("packet is not a UserMessage packet: [MS-MQMQ]", self.refusal(b""))
        self.assertIn("packet is not a UserMessage packet", self.refusal(b"not a packet at all" * 9))

    def test_a_packet_that_is_cut_or_continued(self) -> None:
        """Its length is that of its headers and body."""
        packet = user_packet(b"body")
        self.assertIn("packet", self.refusal(packet[:-1]))
        self.assertIn("4 bytes follow", self.refusal(packet + bytes(4)))

    def test_a_packet(self) -> None:
        """A whole one is taken."""
        self.assertTrue(OutgoingPacket(user_packet(recoverable=True)).is_recoverable)
