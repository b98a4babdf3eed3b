"""Which messages are answered, where the answers go and what they are, before a plain peer."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

from msmq.directory.memory import MemoryDirectory
from msmq.membership.objects import EnterpriseObject
from msmq.service.configuration import load
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import BETA, GAMMA, NULL, base_header, direct_name
from tests.nodes.scripted import Heard, ScriptedTestCase
from tests.nodes.support import Node

PRIVATE_ON_SOURCE, PRIVATE_ON_DESTINATION, PUBLIC, PRIVATE, DIRECT = 2, 3, 5, 6, 7
POSITIVE_ARRIVAL, POSITIVE_RECEIVE, NEGATIVE_ARRIVAL, NEGATIVE_RECEIVE = 1, 2, 4, 8
ALL = 0x0F
ADMIN = "TCP:127.0.0.4\\private$\\admin"
ORDERS = "TCP:127.0.0.3\\private$\\orders"


def asking(
    acknowledge: int,
    kind: int = DIRECT,
    name: bytes | None = None,
    *,
    destination: str | int = ORDERS,
    number: int = 1,
    is_recoverable: bool = False,
    message_class: int = 0,
    to_be_received: int = 0xFFFFFFFF,
    sent_time: int = 0,
    to_reach: int = 0xFFFFFFFF,
) -> bytes:
    """A message of GAMMA's to BETA that asks for acknowledgements, from the byte layouts alone.

    @param kind: AQ, with the bytes of C{name}.
    @param destination: a direct name, or the number of a private queue of BETA's.
    """
    if name is None:
        name = direct_name(ADMIN) if kind else b""
    flags = 0x00200000 | kind << 13 | (0x20 if is_recoverable else 0)
    if isinstance(destination, str):
        flags |= 7 << 10
        host, target = NULL, direct_name(destination)
    else:
        flags |= 3 << 10
        host, target = BETA, struct.pack("<I", destination)
    user = GAMMA.bytes_le + host.bytes_le
    user += struct.pack("<IIII", to_be_received, sent_time, number, flags) + target + name
    body = b"asks"
    properties = struct.pack("<BBH", acknowledge, 0, message_class) + bytes(20)
    properties += struct.pack("<IIIIIIII", 0, 0, len(body), len(body), 0, 0x800E, 0x6610, 0) + body
    return base_header(3, 16 + len(user) + len(properties), to_reach) + user + properties


class AnswersTestCase(ScriptedTestCase):
    """GAMMA sends to BETA's queue C{orders}, and listens."""

    options: dict[str, Any] = {}  # noqa: RUF012

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        kwargs.setdefault("store", MemoryMessageStore(durable=True))
        return super().node(name, identifier, **{"options": self.options, **kwargs})

    def setUp(self) -> None:
        super().setUp()
        self.path = self.queue(self.beta)
        self.listen(is_prompt=True)
        self.peer = self.dial()

    def say(self, *packets: bytes) -> None:
        self.peer.send(*packets)
        self.clock.advance(1)

    def reported(self) -> list[Heard]:
        """The acknowledgements that GAMMA received, on any session."""
        self.clock.advance(1)
        self.peer.acknowledge()
        return [message for peer in (self.peer, *self.peers) for message in peer.messages]

    def classes(self) -> list[int]:
        return [message.message_class for message in self.reported()]


class DestinationTests(AnswersTestCase):
    """Each form in which a message names its administration queue."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        directory = MemoryDirectory(self.clock)
        directory.add(EnterpriseObject(identifier=UUID(int=0xE1), name="estate"))
        return super().node(name, identifier, **{"directory": directory, **kwargs})

    def local_answers(self, path: str) -> list[UserMessageView]:
        self.clock.advance(1)
        return self.take(self.beta, path)

    def number(self, path: str) -> int:
        return int(self.beta.service.inspection.queue(path).format_name.rpartition("\\")[2], 16)

    def test_no_administration_queue(self) -> None:
        """AQ 0 and every bit set, as in the captured frame: no acknowledgement is sent.

        MQQB-3.1.7.15-01.
        """
        self.say(asking(ALL, 0))
        self.say(asking(ALL, 0, destination="TCP:127.0.0.3\\private$\\plenty", number=2))
        self.assertEqual(self.bodies(self.beta, self.path), [b"asks"])
        self.assertEqual(self.reported(), [])
        self.assertEqual(self.waiting(self.beta), 0)

    def test_an_empty_direct_name(self) -> None:
        """No acknowledgement is sent to an empty direct name either (MQQB-3.1.7.15-01)."""
        self.say(asking(ALL, DIRECT, direct_name("")))
        self.assertEqual(self.bodies(self.beta, self.path), [b"asks"])
        self.assertEqual(self.reported(), [])
        self.assertEqual(self.waiting(self.beta), 0)
        self.assertFalse(self.peer.is_lost)

    def test_private_on_the_destination(self) -> None:
        """AQ 3: a queue of the queue manager that the message is for; of this one if no address is given.

        MQQB-3.1.7.15-05.
        """
        admin = self.queue(self.beta, "admin")
        name = struct.pack("<I", self.number(admin))
        self.say(asking(POSITIVE_ARRIVAL, PRIVATE_ON_DESTINATION, name))
        self.say(
            asking(
                POSITIVE_ARRIVAL, PRIVATE_ON_DESTINATION, name, destination=self.number(self.path), number=2
            )
        )
        answers = self.local_answers(admin)
        self.assertEqual([answer.message_class for answer in answers], [2, 2])
        self.assertEqual([answer.correlation_id[16] for answer in answers], [1, 2])
        self.assertEqual(self.reported(), [])

    def test_public(self) -> None:
        """AQ 5: the public queue of that GUID, which the answer names as its destination.

        MQQB-3.1.7.15-06.
        """
        queue = self.run_to_end(self.beta.service.create_queue(".\\admin"))
        identifier = queue.identifier
        self.say(asking(POSITIVE_ARRIVAL, PUBLIC, identifier.bytes_le))
        [answer] = self.local_answers(".\\admin")
        heard = Heard(answer.packet)
        self.assertEqual((heard.user_flags >> 10 & 7, heard.packet[64:80]), (PUBLIC, identifier.bytes_le))
        self.assertEqual(answer.message_class, 2)

    def test_private_elsewhere(self) -> None:
        """AQ 6: a private queue of the queue manager that the name says.

        MQQB-3.1.7.15-07.
        """
        self.say(asking(POSITIVE_ARRIVAL, PRIVATE, GAMMA.bytes_le + struct.pack("<I", 0x12)))
        self.clock.advance(1)
        [answer] = self.peer.heard
        self.assertEqual((answer.queue_manager, answer.destination), (GAMMA, 0x12))
        self.assertEqual(answer.user_flags >> 10 & 7, PRIVATE_ON_DESTINATION)
        # What the message is for, by its direct name, is where to answer to: RQ 7.
        self.assertEqual(answer.user_flags >> 16 & 7, DIRECT)

    def test_which_session(self) -> None:
        """One that leads to the queue manager of the administration queue; without one, it is dialled.

        MQQB-1.3.5.2-01.
        """
        on_source = struct.pack("<I", 0x12)
        self.say(asking(POSITIVE_ARRIVAL, PRIVATE_ON_SOURCE, on_source))
        self.clock.advance(1)
        self.assertEqual((len(self.peer.heard), len(self.peers)), (1, 0))
        self.peer.acknowledge()
        for number in (2, 3):
            self.say(asking(POSITIVE_ARRIVAL, number=number))
        self.assertEqual((len(self.peer.heard), [len(peer.heard) for peer in self.peers]), (1, [2]))
        self.assertEqual(self.peers[0].heard[0].destination, ADMIN)

    def test_a_transactional_queue(self) -> None:
        """No acknowledgement is transactional, so such a queue gets none; the message is delivered."""
        admin = self.queue(self.beta, "admin", transactional=True)
        name = struct.pack("<I", self.number(admin))
        self.say(asking(POSITIVE_ARRIVAL, PRIVATE_ON_DESTINATION, name))
        self.assertEqual((self.bodies(self.beta, admin), self.bodies(self.beta, self.path)), ([], [b"asks"]))


class RemovalTests(AnswersTestCase):
    """Acknowledgements of messages removed from their queue."""

    def test_delivery_mode(self) -> None:
        """An answer is recoverable if its message is.

        MQQB-3.1.7.2.1-02, MQQB-3.1.7.15-11.
        """
        self.say(asking(POSITIVE_RECEIVE), asking(POSITIVE_RECEIVE, number=2, is_recoverable=True))
        self.take(self.beta, self.path)
        answers = self.reported()
        self.assertEqual(
            [(each.message_class, each.is_recoverable) for each in answers], [(0x4000, False), (0x4000, True)]
        )

    def test_five_fates(self) -> None:
        """Received, purged, expired, rejected, deleted.

        MQQB-3.1.7.2.1-05, MQDMPR-3.1.1.12-13.
        """
        both = POSITIVE_RECEIVE | NEGATIVE_RECEIVE
        self.say(asking(both))
        self.take(self.beta, self.path)
        self.say(asking(both, number=2))
        self.run_to_end(self.beta.service.purge_queue(self.path))
        now = int(self.clock.now().wall)
        self.say(asking(both, number=3, to_be_received=10, sent_time=now))
        self.clock.advance(15)
        self.say(asking(both, number=4))
        self.reject()
        self.say(asking(both, number=5))
        self.run_to_end(self.beta.service.delete_queue(self.path))
        self.assertEqual(self.classes(), [0x4000, 0xC001, 0xC002, 0xC004, 0xC000])

    def test_too_late_to_be_received(self) -> None:
        """A message that arrives after its time to be received is treated as if it had expired in the queue.

        The class of its own that [MC-MQAC] has for this is never sent (readings 31 and 63).
        """
        now = int(self.clock.now().wall)
        self.say(asking(NEGATIVE_RECEIVE, to_be_received=10, sent_time=now - 20))
        self.assertEqual(self.classes(), [0xC002])

    def reject(self) -> None:
        """An application will not have the message."""
        self.run_to_end(self.beta.service.reserve(self.path, timeout=0)).reject()


class QuietTests(AnswersTestCase):
    """[MS-MQQB] note 62: messages for administration, notification and order queues are not acknowledged."""

    def test_acknowledgements(self) -> None:
        """An acknowledgement is never acknowledged, even if it requests that; other classes are.

        MQQB-3.1.5.8.10-02.
        """
        classes = (2, 0x4000, 0x8000, 0x8003, 0x800B, 0xC000, 0xC004, 0x00FF)
        for number, message_class in enumerate(classes):
            self.say(asking(ALL, number=number, message_class=message_class))
        self.assertEqual([view.message_class for view in self.take(self.beta, self.path)], list(classes))
        self.assertEqual(self.reported(), [])
        self.say(
            asking(POSITIVE_ARRIVAL, number=20), asking(POSITIVE_ARRIVAL, number=21, message_class=0x0123)
        )
        self.assertEqual(self.classes(), [2, 2])

    def test_queues_of_the_system(self) -> None:
        """Messages for the notification queue, and unusable ones for the order queue, draw no
        acknowledgement.

        MQQB-3.1.5.8.10-02.
        """
        self.beta = self.restart(self.beta, options={"send_insecure_nacks": True})
        self.peer = self.dial()
        for number, name in enumerate(("PRIVATE$\\Notify_Queue$", "private$\\order_queue$")):
            self.say(asking(ALL, destination=f"TCP:127.0.0.3\\{name}", number=number))
        self.say(asking(ALL, destination=3, number=3), asking(ALL, destination=4, number=4))
        self.assertEqual(self.reported(), [])
        self.say(asking(ALL, destination="TCP:127.0.0.3\\private$\\order_queue", number=5))
        self.assertEqual(self.classes(), [0x8000])


class InsecureTests(AnswersTestCase):
    """[MS-MQQB] 3.1.1.3 SendInsecureNacks, as the configuration has it."""

    def setUp(self) -> None:
        self.file = self.mktemp()
        self.write("")
        super().setUp()

    def write(self, text: str) -> None:
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(text)

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        configuration = load(self.file)
        options = {"send_insecure_nacks": configuration.security.permit_insecure_nacks}
        return super().node(name, identifier, **{"options": options, **kwargs})

    def refuse(self) -> list[int]:
        """Send to a queue that is not there, too late, and without a transaction; what is answered."""
        self.peer = self.dial()
        self.peers.clear()
        self.run_to_end(self.beta.service.set_queue(self.path, {"label": "refuses"}))
        nowhere = "TCP:127.0.0.3\\private$\\nowhere"
        payments = "TCP:127.0.0.3\\private$\\payments"
        self.say(asking(NEGATIVE_ARRIVAL, destination=nowhere))
        self.say(asking(NEGATIVE_ARRIVAL, number=2, to_reach=1, sent_time=1))
        self.say(asking(NEGATIVE_ARRIVAL, number=3, destination=payments))
        return self.classes()

    def test_restarts(self) -> None:
        """FALSE unless the configuration permits them, which holds over restarts.

        MQQB-3.1.1.3-14, MQQB-3.1.1.3-15, MQQB-5.1-04.
        """
        self.queue(self.beta, "payments", transactional=True)
        self.assertEqual(self.refuse(), [0x8002, 0x800A])
        self.write("[security]\npermit_insecure_nacks = true\n")
        for _ in range(2):
            self.beta = self.restart(self.beta)
            self.assertEqual(self.refuse(), [0x8000, 0x8002, 0x800A])
        self.write("[security]\npermit_insecure_nacks = false\n")
        self.beta = self.restart(self.beta)
        self.assertEqual(self.refuse(), [0x8002, 0x800A])
        self.assertEqual(self.there(self.beta, self.path), [])
