"""Acknowledgements that senders request in a queue of the queue manager that their messages leave."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.manager.securing.security_descriptors import AccessPolicy
from msmq.queues.arriving.message import Acknowledge, Delivery
from msmq.structures.names.format_name import PrivateFormatName, parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.testing.access_control import MemoryAccessControl
from msmq.testing.contracts.signing import SID
from msmq.wire.guid import NULL_GUID
from tests.builders import ALPHA
from tests.nodes.drains.support import AT_ALPHA, AT_BETA, ORDERS, DrainTestCase
from tests.nodes.scripted import DEADLETTER
from tests.nodes.support import Node

ACKS = ".\\private$\\acks"
AT_ACKS = "DIRECT=OS:ALPHA\\private$\\acks"
OPEN = "D:(A;;GA;;;WD)"


class RequestedTests(DrainTestCase):
    """ALPHA has access control, which stores the format name of such a queue in the messages."""

    def setUp(self) -> None:
        super().setUp()
        self.queue(self.alpha, security=OPEN)
        self.queue(self.alpha, "acks", security=OPEN)
        self.queue(self.beta)

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if name == "ALPHA":
            kwargs.setdefault("options", {"access": AccessPolicy(MemoryAccessControl(), SID)})
        return super().node(name, identifier, **kwargs)

    def ask(self, admin: str, **kwargs: Any) -> None:
        """GAMMA sends a message to ALPHA, whose receipt is to be acknowledged there."""
        self.send(
            self.gamma,
            AT_ALPHA,
            b"1",
            delivery=Delivery.RECOVERABLE,
            acknowledge=Acknowledge.POSITIVE_RECEIVE,
            admin_queue=parse_format_name(admin),
            **kwargs,
        )
        self.clock.advance(5)

    def received(self) -> UserMessageView:
        """BETA's message, which an application receives, so that it is acknowledged."""
        [view] = self.take(self.beta, ORDERS)
        self.clock.advance(5)
        classes = [each.message_class for each in self.take(self.alpha, ACKS)]
        self.assertEqual(classes, [MessageClass.ACK_RECEIVE])
        return view

    def test_drain(self) -> None:
        """A message that is moved to a direct name has the direct name of that queue, which the destination
        finds without a directory, however the sender has named it.
        """
        number = next(each for each in self.alpha.model.queues() if "acks" in each.definition.path)
        private = PrivateFormatName(ALPHA, number.definition.number)
        here = PrivateFormatName(NULL_GUID, number.definition.number)
        self.begin()
        for name in (
            AT_ACKS,
            AT_ACKS.replace("OS:ALPHA", f"TCP:{self.alpha.address}"),
            str(private),
            str(here),
        ):
            self.ask(name)
            self.assertEqual(str(self.received().admin_format_name()), AT_ACKS)

    def test_drain_to_a_private_name(self) -> None:
        """A destination that has a directory finds the queue by its format name, which stays."""
        self.begin_to_private_name()
        self.ask(AT_ACKS)
        [view] = self.take(self.beta, ORDERS)
        self.assertIsInstance(view.admin_format_name(), PrivateFormatName)

    def begin_to_private_name(self) -> None:
        """Drain the queue to the private name of the one at BETA."""
        # A private name has no address; a session that BETA has opened leads there.
        self.send(self.beta, "DIRECT=OS:ALPHA\\private$\\nowhere", b"x")
        self.clock.advance(1)
        name = self.beta.service.inspection.queue(ORDERS).format_name
        self.run_to_end(self.alpha.service.drains.begin(ORDERS, name))

    def test_dead_letter(self) -> None:
        """So it is with a dead letter that is sent to another queue manager."""
        self.ask(AT_ACKS, dead_letter=True, time_to_be_received=1)
        self.clock.advance(5)
        service = self.alpha.service
        page = self.run_to_end(service.inspection.browse(DEADLETTER, count=10))
        identifiers = [each.lookup_id for each in page.messages]
        self.run_to_end(service.message_administration.requeue(DEADLETTER, identifiers, to=AT_BETA))
        self.clock.advance(0.5)
        self.assertEqual(str(self.received().admin_format_name()), AT_ACKS)
