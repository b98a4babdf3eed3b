"""Acknowledgements that messages from elsewhere ask for, and the queues of ours that they would go into."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.interfaces.security.access import Account
from msmq.interfaces.security.signing import KeptCertificate
from msmq.manager.securing.security_descriptors import AccessPolicy
from msmq.queues.arriving.message import Acknowledge, Message
from msmq.queues.arriving.packet_builder import PacketBuilder
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.names.format_name import FormatName, PrivateFormatName, parse_format_name
from msmq.structures.names.path_name import parse_path_name
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.message_class import MessageClass
from msmq.testing.access_control import MemoryAccessControl
from msmq.testing.contracts.signing import SID
from msmq.wire.guid import NULL_GUID
from msmq.wire.sid import format_sid
from tests.builders import ALPHA, BETA
from tests.nodes.scripted import ScriptedTestCase
from tests.nodes.signed import TO_BETA, SigningTestCase
from tests.nodes.support import Node, NodesTestCase

OPEN, CLOSED = ".\\private$\\open", ".\\private$\\closed"


class ReplyTests(NodesTestCase):
    """BETA has a queue that every account may write to, and one for its owner alone."""

    send_insecure_nacks = False

    def setUp(self) -> None:
        super().setUp()
        self.queue(self.beta, "open", security="D:(A;;GA;;;WD)")
        self.queue(self.beta, "closed", security="D:(A;;GA;;;S-1-5-21-1-2-3-1001)")
        self.queue(self.alpha, "admin")

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        options: dict[str, Any] = {"send_insecure_nacks": self.send_insecure_nacks}
        if name == "BETA":
            options["access"] = AccessPolicy(MemoryAccessControl(), SID)
        store = MemoryMessageStore(durable=True)
        return super().node(name, identifier, options=options, store=store, **kwargs)

    def ask(self, admin_queue: FormatName, to: str = "open", **kwargs: Any) -> None:
        message = Message(body=b"1", acknowledge=Acknowledge(0x0F), admin_queue=admin_queue, **kwargs)
        self.run_to_end(self.alpha.service.send(f"DIRECT=TCP:127.0.0.3\\private$\\{to}", [message]))
        self.clock.advance(5)

    def found(self, path: str, node: Node | None = None) -> list[MessageClass | int]:
        return [view.message_class for view in self.take(node or self.beta, path)]

    def test_a_queue_of_ours_that_is_closed(self) -> None:
        """A sender without the right to write cannot get acknowledgements into it, under any name."""
        queue = self.beta.model.find(parse_path_name(CLOSED))
        assert queue is not None
        for name in (
            parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\closed"),
            parse_format_name("DIRECT=OS:BETA\\private$\\closed"),
            PrivateFormatName(BETA, queue.definition.number),
            PrivateFormatName(NULL_GUID, queue.definition.number),
        ):
            self.ask(name)
            self.ask(name, time_to_be_received=1)
            self.assertEqual(self.found(OPEN), [MessageClass.NORMAL])
            self.assertEqual(self.found(CLOSED), [])

    def test_a_queue_that_is_created_later(self) -> None:
        """No acknowledgement gets into a closed queue that did not exist when its message arrived."""
        for name in ("DIRECT=TCP:127.0.0.3\\private$\\later", f"PRIVATE={BETA}\\00000099"):
            self.ask(parse_format_name(name), time_to_be_received=60)
        self.queue(self.beta, "later", security="D:(A;;GA;;;S-1-5-21-1-2-3-1001)")
        self.clock.advance(120)
        self.assertEqual(self.found(".\\private$\\later"), [])

    def test_a_queue_that_is_created_again(self) -> None:
        """No acknowledgement gets into a closed queue that has got the name of an open one meanwhile."""
        path = ".\\private$\\again"
        for address in ("TCP:127.0.0.3", "OS:BETA", "OS:beta"):
            self.queue(self.beta, "again", security="D:(A;;GA;;;WD)")
            self.ask(parse_format_name(f"DIRECT={address}\\private$\\Again"), time_to_be_received=60)
            self.assertEqual(self.found(path), [MessageClass.ACK_REACH_QUEUE])
            self.run_to_end(self.beta.service.delete_queue(path))
            self.queue(self.beta, "again", security="D:(A;;GA;;;S-1-5-21-1-2-3-1001)")
            self.clock.advance(120)
            self.assertEqual(self.found(path), [])
            self.run_to_end(self.beta.service.delete_queue(path))

    def test_name_that_is_stored(self) -> None:
        """A direct name of a queue here is stored as its format name; all else in the message stays."""
        direct = parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\open")
        elsewhere = parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\admin")
        for response in (None, direct, elsewhere):
            self.ask(direct, response_queue=response, label="x", extension=b"ext")
            view, *_ = self.take(self.beta, OPEN)
            name = self.beta.model.format_name(self.beta.model.names.queue_for(view) or self.fail())
            self.assertEqual(view.admin_format_name(), name)
            self.assertEqual(view.response_format_name(), response)
            self.assertEqual((bytes(view.body), view.label, view.extension), (b"1", "x", b"ext"))
            self.assertEqual(view.source_queue_manager, ALPHA.bytes_le)
            self.take(self.beta, OPEN)

    def test_name_with_which_a_message_is_too_large(self) -> None:
        """A message that cannot be stored with that name is accepted, without its acknowledgements."""
        admin = parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\open")
        asked = Message(acknowledge=Acknowledge(0x0F), admin_queue=admin, response_queue=admin)
        builder = PacketBuilder(admin, source=ALPHA, destination_queue_manager=NULL_GUID)
        rest = BaseHeader.MAXIMUM_PACKET_SIZE - builder.view(asked, 1, 0).size
        self.ask(admin, response_queue=admin, extension=bytes(rest - 4))
        [view] = self.take(self.beta, OPEN)
        self.assertEqual((view.acknowledge, view.response_format_name()), (0, admin))

    def test_a_queue_for_authenticated_messages(self) -> None:
        """It gets no acknowledgement of a message whose sender is not authenticated."""
        self.queue(self.beta, "signed", authenticate=True, security="D:(A;;GA;;;WD)")
        name = parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\signed")
        self.ask(name)
        self.ask(name, transactional=True)
        self.assertEqual(self.found(".\\private$\\signed"), [])

    def test_a_queue_for_authenticated_messages_without_access_control(self) -> None:
        """So it is where no queue has an access list."""
        self.queue(self.alpha, "plain")
        self.queue(self.alpha, "signed", authenticate=True)
        for admin, expected in (("admin", [MessageClass.ACK_REACH_QUEUE]), ("signed", [])):
            message = Message(
                acknowledge=Acknowledge(0x0F),
                admin_queue=parse_format_name(f"DIRECT=TCP:127.0.0.2\\private$\\{admin}"),
            )
            sending = self.beta.service.send("DIRECT=TCP:127.0.0.2\\private$\\plain", [message])
            self.run_to_end(sending)
            self.clock.advance(5)
            self.assertEqual(self.found(f".\\private$\\{admin}", self.alpha), expected)

    def test_what_is_refused(self) -> None:
        """A message that is not taken gets its body nowhere either."""
        name = parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\closed")
        self.ask(name, transactional=True)
        self.ask(name, to="nowhere")
        self.ask(name, to="closed")
        self.assertEqual(self.found(CLOSED), [])

    def test_other_queues(self) -> None:
        """One that is open, and one of the sender's own, get what is asked for."""
        self.ask(parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\open"))
        reported = [MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE]
        self.assertEqual(self.found(OPEN), [MessageClass.NORMAL, *reported])
        self.ask(parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\admin"))
        self.assertEqual(self.found(".\\private$\\admin", self.alpha), [MessageClass.ACK_REACH_QUEUE])

    def test_local_senders(self) -> None:
        """An application of BETA gets acknowledgements in a queue of its own, whichever accounts may
        write to it.
        """
        message = Message(
            acknowledge=Acknowledge.POSITIVE_ARRIVAL,
            admin_queue=parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\closed"),
        )
        self.run_to_end(self.beta.service.send(OPEN, [message]))
        self.assertEqual(self.found(CLOSED), [MessageClass.ACK_REACH_QUEUE])


class InsecureReplyTests(ReplyTests):
    """The same where unauthenticated peers get the reasons of refusals."""

    send_insecure_nacks = True


class StatedSourceTests(ScriptedTestCase):
    """BETA, and a peer that states another source of its messages."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        options = {"access": AccessPolicy(MemoryAccessControl(), SID)}
        return super().node(name, identifier, options=options, **kwargs)

    def test_private_queue_of_the_stated_source(self) -> None:
        """A number of a queue of the source, which is BETA or none, is one of BETA's."""
        path = self.queue(self.beta, "open", security="D:(A;;GA;;;WD)")
        closed = self.queue(self.beta, "closed", security="D:(A;;GA;;;S-1-5-21-1-2-3-1001)")
        queue = self.beta.model.find(parse_path_name(closed))
        assert queue is not None
        destination = parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\open")
        for source in (BETA, NULL_GUID):
            message = Message(
                body=b"1",
                acknowledge=Acknowledge(0x0F),
                admin_queue=PrivateFormatName(source, queue.definition.number),
            )
            builder = PacketBuilder(destination, source=source, destination_queue_manager=NULL_GUID)
            self.dial().send(builder.view(message, 7, self.clock.now().unix_seconds).packet)
            self.clock.advance(1)
            self.assertEqual(self.bodies(self.beta, path), [b"1"])
            self.assertEqual(self.bodies(self.beta, closed), [])


class SignedReplyTests(SigningTestCase):
    """BETA authenticates the sender of a message."""

    def setUp(self) -> None:
        self.access = MemoryAccessControl()
        self.access.add(Account(SID, "alice"))
        super().setUp()
        self.run_to_end(self.beta.service.access.allow(self.plain, "everyone", ["send"]))
        self.queue(self.beta, "closed", security="D:(A;;GA;;;S-1-5-21-1-2-3-1001)")

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        options: dict[str, Any] = {"send_insecure_nacks": True}
        if name == "BETA":
            options["access"] = AccessPolicy(self.access, SID)
        return super().node(name, identifier, options=options, **kwargs)

    def test_authenticated_senders(self) -> None:
        """The sender's authentication counts for that queue as for the message itself."""
        self.check("closed", signed=[MessageClass.ACK_REACH_QUEUE], unsigned=[])

    def test_denied_sender(self) -> None:
        """A sender that the queue denies gets no acknowledgements into it, though all others may write."""
        self.queue(self.beta, "denying", security=f"D:(D;;0x4;;;{format_sid(SID)})(A;;GA;;;WD)")
        self.check("denying", signed=[], unsigned=[MessageClass.ACK_REACH_QUEUE])

    def test_refused_message(self) -> None:
        """The body of a refused message gets into a queue only if its verified sender may write there."""
        self.keep_signed()
        own = format_sid(SID)
        self.queue(self.beta, "denying", security=f"D:(D;;0x4;;;{own})(A;;GA;;;WD)")
        for admin, expected in (("denying", []), ("closed", [MessageClass.NACK_ACCESS_DENIED])):
            self.run_to_end(self.alpha.service.send(TO_BETA.format("denying"), [self.asking(admin)]))
            self.clock.advance(5)
            self.assertEqual(self.found(admin), expected)

    def check(
        self, admin: str, *, signed: list[MessageClass | int], unsigned: list[MessageClass | int]
    ) -> None:
        """The acknowledgements that a queue of BETA gets for a signed and for an unsigned message."""
        self.keep_signed()
        for level, expected in ((AuthenticationLevel.SIG_2_0, signed), (AuthenticationLevel.NONE, unsigned)):
            self.run_to_end(self.alpha.service.send(TO_BETA.format("plain"), [self.asking(admin, level)]))
            self.clock.advance(5)
            self.assertEqual(len(self.arrived()), 1)
            self.assertEqual(self.found(admin), expected)

    def keep_signed(self) -> None:
        """ALPHA can sign for alice."""
        self.own_stores["ALPHA"].add(KeptCertificate(self.alice, SID, is_internal=True))
        self.alpha.service._parts.security.messages.open()

    def asking(self, admin: str, level: AuthenticationLevel = AuthenticationLevel.SIG_2_0) -> Message:
        """A message that asks for the acknowledgements of its arrival, in a queue of BETA."""
        return Message(
            authentication_level=level,
            acknowledge=Acknowledge.POSITIVE_ARRIVAL | Acknowledge.NEGATIVE_ARRIVAL,
            admin_queue=parse_format_name(f"DIRECT=TCP:127.0.0.3\\private$\\{admin}"),
        )

    def found(self, name: str) -> list[MessageClass | int]:
        """The classes of the messages in a queue of BETA."""
        return [view.message_class for view in self.take(self.beta, f".\\private$\\{name}")]
