"""Public queues of other queue managers, as applications, acknowledgements and reports use them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.interfaces.storage import StorageFull
from msmq.manager.membership import public_names
from msmq.manager.membership.public_names import FRESH
from msmq.manager.securing.security_descriptors import AccessPolicy
from msmq.membership.attributes import DirectoryObject
from msmq.membership.objects import QueueManagerObject, QueueObject
from msmq.persistence.changes import RemoveMessages
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.structures.names.format_name import PublicFormatName, parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status
from msmq.testing.access_control import MemoryAccessControl
from msmq.testing.contracts.signing import SID
from tests.manager.support import FaultyStore
from tests.nodes.routes.test_routing import IDENTIFIERS, ORDERS, EnterpriseTestCase
from tests.nodes.support import Node


class PublicQueuesElsewhereTests(EnterpriseTestCase):
    """The queue ZETA\\orders, as the other queue managers see it."""

    def setUp(self) -> None:
        super().setUp()
        self.run_to_end(self.zeta.service.create_queue("ZETA\\orders"))
        self.name: str = self.zeta.service.inspection.queue("ZETA\\orders").format_name

    def forget(self) -> None:
        """Let the cached locations of public queues expire."""
        self.clock.advance(FRESH + 1)

    def test_open_queue(self) -> None:
        """It is opened by its format name without waiting, and looked for at each sending that needs it."""
        queue = self.alpha.service.open_queue(self.name, QueueAccessType.SEND)
        self.assertEqual(queue.format_name, self.name)
        self.run_to_end(queue.send([Message(body=b"first")]))
        self.forget()
        self.run_to_end(queue.send([Message(body=b"later")]))
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.zeta, "ZETA\\orders"), [b"first", b"later"])

    def refused(self, name: str) -> Status:
        sending = self.deferred(self.alpha.service.send(name, [Message(body=b"x")]))
        error = self.failureResultOf(sending, MQError).value
        assert isinstance(error, MQError)
        return error.status

    def test_unknown_public_queue(self) -> None:
        """MQDMPR-3.1.7.1.5-16: by its format name it is refused, when it is sent to."""
        name = f"PUBLIC={UUID(int=0x77)}"
        self.assertEqual(self.refused(name), Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION)
        queue = self.alpha.service.open_queue(name, QueueAccessType.SEND)
        failure = self.failureResultOf(self.deferred(queue.send([Message(body=b"x")])), MQError)
        self.assertEqual(failure.value.status, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION)
        self.assertEqual(self.refused("ZETA\\nothing"), Status.MQ_ERROR_QUEUE_NOT_FOUND)

    def test_queue_of_our_own_that_is_not_here(self) -> None:
        """MQDMPR-3.1.7.1.5-17: what the directory has here, and is not, is not found."""
        assert self.directory is not None
        identifier = UUID(int=0x66)
        self.directory.add(QueueObject(identifier=identifier, pathname="alpha\\lost"))
        self.assertEqual(self.refused(f"PUBLIC={identifier}"), Status.MQ_ERROR_QUEUE_NOT_FOUND)
        self.assertEqual(self.alpha.service.inspection.outgoing(), [])

    def test_directory_is_away(self) -> None:
        """Messages to a format name wait until the directory can be asked for the queue; a path is refused.

        Also over a restart; and gates in between learn its destination.
        MQQB-3.1.7.4-03
        """
        assert self.directory is not None
        self.directory.is_connected = False
        self.send(self.alpha, self.name, b"kept", delivery=Delivery.RECOVERABLE)
        [queue] = self.alpha.service.inspection.outgoing()
        self.assertEqual((queue.state, queue.messages), ("NEED VALIDATION", 1))
        self.assertEqual(self.refused("ZETA\\orders"), Status.MQ_ERROR_NO_DS)
        self.kill("ALPHA")
        self.revive("ALPHA")
        self.alpha = self.nodes["ALPHA"]
        self.send(self.alpha, self.name, b"later")
        for _ in range(60):
            self.clock.advance(2)
        self.assertEqual(self.bodies(self.zeta, "ZETA\\orders"), [])
        self.directory.is_connected = True
        for _ in range(120):
            self.clock.advance(2)
        views = self.take(self.zeta, "ZETA\\orders")
        self.assertEqual([bytes(view.body) for view in views], [b"kept", b"later"])
        for view in views:
            self.assertEqual(view.queue_manager_address, IDENTIFIERS["ZETA"].bytes_le)
            self.assertEqual(view.hop_count, 3)

    def test_distribution_list(self) -> None:
        """MQDMPR-3.1.7.1.5-01: it stands for its members, on any queue manager, and for nested ones.

        Ten minutes later its members are asked for again; when the directory is away those that were known
        hold.
        """
        assert self.directory is not None
        own = self.alpha.service.inspection.queue(self.queue(self.alpha)).format_name
        put = self.directory.add_distribution_list
        inner = put([parse_format_name(self.name)])
        outer = put([inner, parse_format_name(own)])
        empty = put([])
        name = str(outer)
        waiting = self.assertRaises(MQError, self.alpha.service.open_queue, name, QueueAccessType.SEND)
        self.assertEqual(waiting.status, Status.MQ_ERROR_NO_DS)
        self.run_to_end(self.alpha.service.send(name, [Message(body=b"both")]))
        queue = self.alpha.service.open_queue(name, QueueAccessType.SEND)
        self.assertEqual(set(queue.format_name.split(",")), {self.name, own})
        self.run_to_end(queue.send([Message(body=b"again")]))
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.zeta, "ZETA\\orders"), [b"both", b"again"])
        self.assertEqual(self.bodies(self.alpha, ORDERS), [b"both", b"again"])
        put([parse_format_name(own)], outer.identifier)
        self.forget()
        self.directory.is_connected = False
        self.run_to_end(self.alpha.service.send(name, [Message(body=b"away")]))
        self.directory.is_connected = True
        self.clock.advance(120)
        self.forget()
        self.run_to_end(self.alpha.service.send(f"{name},{name}", [Message(body=b"alone")]))
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.zeta, "ZETA\\orders"), [b"away"])
        self.assertEqual(self.bodies(self.alpha, ORDERS), [b"away", b"alone"])
        for unusable in (str(empty), f"DL={UUID(int=0xD4)}"):
            self.assertEqual(self.refused(unusable), Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION)

    def test_more_names_than_are_kept(self) -> None:
        """A destination whose names displace one another is refused, and not looked up without end."""
        assert self.directory is not None
        self.patch(public_names, "REMEMBERED", 2)
        self.patch(public_names, "REMEMBERED_LISTS", 2)
        named = [self.directory.add(QueueObject(pathname=f"ZETA\\queue{number}")) for number in range(3)]
        lists = [self.directory.add_distribution_list([parse_format_name(self.name)]) for _ in range(3)]
        for names in ([f"PUBLIC={each}" for each in named], list(map(str, lists))):
            self.assertEqual(self.refused(",".join(names)), Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
            self.run_to_end(self.alpha.service.send(",".join(names[:2]), [Message()]))

    def test_open_queue_by_path(self) -> None:
        """Its format name is asked for first; with others it is one of several destinations."""
        refused = self.assertRaises(
            MQError, self.alpha.service.open_queue, "ZETA\\orders", QueueAccessType.SEND
        )
        self.assertEqual(refused.status, Status.MQ_ERROR_NO_DS)
        name = self.run_to_end(self.alpha.service.format_name("zeta\\Orders"))
        self.assertEqual(name, self.name)
        own = self.alpha.service.inspection.queue(self.queue(self.alpha)).format_name
        queue = self.alpha.service.open_queue(f"{name},{own}", QueueAccessType.SEND)
        self.forget()
        self.run_to_end(queue.send([Message(body=b"both")]))
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.zeta, "ZETA\\orders"), [b"both"])
        self.assertEqual(self.bodies(self.alpha, ORDERS), [b"both"])

    def test_administration_queue(self) -> None:
        """An acknowledgement for a public queue elsewhere waits until it is known where that is."""
        path = self.queue(self.nodes["GAMMA"])
        for body in (b"one", b"two"):
            self.send(
                self.alpha,
                self.private_name(self.nodes["GAMMA"], path),
                body,
                acknowledge=Acknowledge.POSITIVE_ARRIVAL,
                admin_queue=parse_format_name(self.name),
            )
        self.clock.advance(10)
        answers = self.take(self.zeta, "ZETA\\orders")
        self.assertEqual([view.message_class for view in answers], [MessageClass.ACK_REACH_QUEUE] * 2)
        self.assertEqual(answers[0].queue_manager_address, IDENTIFIERS["ZETA"].bytes_le)

    def test_administration_queue_of_a_full_queue_manager(self) -> None:
        """Its acknowledgement needs no space in the quota there, as one whose queue is known."""
        gamma = self.nodes["GAMMA"]
        path, storage = self.queue(gamma), gamma.model.storage
        for _ in range(2):
            before = storage.used
            self.send(
                self.alpha,
                self.private_name(gamma, path),
                b"x",
                acknowledge=Acknowledge.POSITIVE_ARRIVAL,
                admin_queue=parse_format_name(self.name),
            )
            self.clock.advance(10)
            # The next one takes the last bytes.
            storage.limit = 2 * storage.used - before
            self.forget()
        self.assertEqual(self.bodies(gamma, path), [b"x", b"x"])
        answers = self.take(self.zeta, "ZETA\\orders")
        self.assertEqual([view.message_class for view in answers], [MessageClass.ACK_REACH_QUEUE] * 2)

    def test_administration_queue_of_a_receipt_that_failed(self) -> None:
        """A message whose receipt is not stored is in its queue again, and only the receipt that is stored
        has an acknowledgement.
        """
        store = self.disks["GAMMA"] = FaultyStore()
        gamma = self.restart("GAMMA")
        path = self.queue(gamma)
        self.send(
            self.alpha,
            self.private_name(gamma, path),
            b"x",
            delivery=Delivery.RECOVERABLE,
            acknowledge=Acknowledge.POSITIVE_RECEIVE,
            admin_queue=parse_format_name(self.name),
        )
        self.clock.advance(10)
        store.fail_commit(1, of=RemoveMessages)
        held = self.run_to_end(gamma.service.reserve(path, timeout=0))
        self.failureResultOf(self.deferred(held.confirm()), MQError)
        store.recover()
        self.clock.advance(10)
        self.assertEqual(self.take(self.zeta, "ZETA\\orders"), [])
        self.assertEqual(self.bodies(gamma, path), [b"x"])
        self.clock.advance(10)
        answers = self.take(self.zeta, "ZETA\\orders")
        self.assertEqual([view.message_class for view in answers], [MessageClass.ACK_RECEIVE])

    def test_administration_queue_at_a_full_store(self) -> None:
        """Its acknowledgement of a message that is received meanwhile waits for space, as all others."""
        store = self.disks["GAMMA"] = FaultyStore()
        gamma = self.restart("GAMMA")
        path = self.queue(gamma)
        self.send(
            self.alpha,
            self.private_name(gamma, path),
            b"x",
            delivery=Delivery.RECOVERABLE,
            acknowledge=Acknowledge.POSITIVE_RECEIVE,
            admin_queue=parse_format_name(self.name),
        )
        self.clock.advance(10)
        store.error = StorageFull("no space")
        store.is_hit = lambda changes: not all(isinstance(each, RemoveMessages) for each in changes)
        sending = self.deferred(gamma.service.send(path, [Message(delivery=Delivery.RECOVERABLE)]))
        self.failureResultOf(sending, MQError)
        self.assertEqual(self.bodies(gamma, path), [b"x"])
        self.clock.advance(10)
        store.recover()
        self.clock.advance(10)
        answers = self.take(self.zeta, "ZETA\\orders")
        self.assertEqual([view.message_class for view in answers], [MessageClass.ACK_RECEIVE])
        self.assertEqual(gamma.service.inspection.measurements.acknowledgements()["administration"], 1)

    def test_unknown_administration_queue(self) -> None:
        """The message arrives all the same, and its acknowledgement does not wait."""
        path = self.queue(self.nodes["GAMMA"])
        self.send(
            self.alpha,
            self.private_name(self.nodes["GAMMA"], path),
            b"x",
            acknowledge=Acknowledge.POSITIVE_ARRIVAL,
            admin_queue=parse_format_name(f"PUBLIC={UUID(int=0x77)}"),
        )
        self.clock.advance(10)
        self.assertEqual(self.bodies(self.nodes["GAMMA"], path), [b"x"])
        self.assertEqual(self.nodes["GAMMA"].service.inspection.outgoing(), [])

    def test_report_queue(self) -> None:
        """Reports of a traced message go to a public queue elsewhere."""
        self.kill("ALPHA")
        alpha = self.nodes["ALPHA"] = Node(
            self.network,
            self.clock,
            "ALPHA",
            IDENTIFIERS["ALPHA"],
            self.settings,
            self.disks["ALPHA"],
            directory=self.directory,
            options={"report_messages": True},
        )
        alpha.start()
        path = self.queue(self.nodes["GAMMA"])
        identifier = parse_format_name(self.name)
        assert isinstance(identifier, PublicFormatName)
        self.send(alpha, self.private_name(self.nodes["GAMMA"], path), b"x", trace=identifier.queue)
        self.clock.advance(10)
        [report] = self.take(self.zeta, "ZETA\\orders")
        self.assertEqual(report.message_class, MessageClass.REPORT)

    def test_report_queue_of_a_gate(self) -> None:
        """A message in transit puts no reports into a queue of the gate that is closed to its sender."""
        self.options = {"report_messages": True, "access": AccessPolicy(MemoryAccessControl(), SID)}
        gate = self.nodes["BETA"] = self.restart("BETA")
        reports = "BETA\\reports"
        self.run_to_end(gate.service.create_queue(reports, security="D:(A;;GA;;;S-1-5-21-1-2-3-1001)"))
        name = parse_format_name(gate.service.inspection.queue(reports).format_name)
        assert isinstance(name, PublicFormatName)
        path = self.queue(self.nodes["GAMMA"])
        for expected in (0, 2):
            self.send(self.alpha, self.private_name(self.nodes["GAMMA"], path), b"x", trace=name.queue)
            self.clock.advance(10)
            self.assertEqual(len(self.take(gate, reports)), expected)
            self.run_to_end(gate.service.access.allow(reports, "anonymous", ["send"]))
        self.assertEqual(self.bodies(self.nodes["GAMMA"], path), [b"x", b"x"])

    def test_restart_while_the_directory_is_away(self) -> None:
        """Messages for a public queue wait until its location is known, and leave by themselves."""
        assert self.directory is not None
        self.kill("BETA")
        self.send(self.alpha, self.name, b"kept", delivery=Delivery.RECOVERABLE)
        self.clock.advance(1)
        self.kill("ALPHA")
        self.directory.is_connected = False
        self.revive("ALPHA")
        self.revive("BETA")
        for _ in range(30):
            self.clock.advance(1)
        self.assertEqual(self.bodies(self.zeta, "ZETA\\orders"), [])
        self.directory.is_connected = True
        for _ in range(90):
            self.clock.advance(2)
        self.assertEqual(self.bodies(self.zeta, "ZETA\\orders"), [b"kept"])

    def test_base_priority(self) -> None:
        """MQDMPR-3.1.7.1.5-20: the directory says it, also of a queue that was opened before it was known."""
        assert self.directory is not None
        name = parse_format_name(self.name)
        assert isinstance(name, PublicFormatName)
        written = QueueObject(identifier=name.queue, pathname="ZETA\\orders", base_priority=7)
        self.successResultOf(self.directory.write(written, ("base_priority",)))
        other = UUID(int=0x55)
        self.directory.add(QueueObject(identifier=other, pathname="ZETA\\other", base_priority=-3))
        queue = self.alpha.service.open_queue(str(PublicFormatName(other)), QueueAccessType.SEND)
        self.run_to_end(queue.send([Message(body=b"x")]))
        self.send(self.alpha, self.name, b"x")
        priorities = {
            str(each.destination): each.definition.base_priority
            for each in self.alpha.model.outgoing_queues()
        }
        self.assertEqual(priorities, {self.name: 7, str(PublicFormatName(other)): -3})

    def test_names_of_one_queue(self) -> None:
        """MQQB-3.1.5.8.5-01 MQQB-3.1.7.4-01: under any name, with its queue manager or without."""
        path = self.queue(self.zeta)
        direct = "DIRECT=OS:zeta.example.com\\"
        for number, name in enumerate((self.private_name(self.zeta, path), direct + "private$\\orders")):
            self.send(self.alpha, name, b"private %d" % number)
            self.clock.advance(5)
        for number, name in enumerate((self.name, direct + "orders")):
            self.send(self.alpha, name, b"public %d" % number)
            self.clock.advance(5)
        self.assertEqual(self.bodies(self.zeta, path), [b"private 0", b"private 1"])
        views = self.take(self.zeta, "ZETA\\orders")
        self.assertEqual([bytes(view.body) for view in views], [b"public 0", b"public 1"])
        addresses = [view.queue_manager_address for view in views]
        self.assertEqual(addresses, [IDENTIFIERS["ZETA"].bytes_le, bytes(16)])
        # What has a direct name went straight to that host.
        self.assertEqual([view.hop_count for view in views], [3, 0])

    def test_what_is_read(self) -> None:
        """MQMQ-2.1.4-02 MQMQ-2.1.3-03: a private queue needs no look-up; both names are routed."""
        asked: list[type[DirectoryObject]] = []
        assert self.directory is not None
        read = self.directory.read

        def counting(of: type[DirectoryObject], *arguments: Any) -> Any:
            asked.append(of)
            return read(of, *arguments)

        self.patch(self.directory, "read", counting)
        path = self.queue(self.zeta)
        self.send(self.alpha, self.private_name(self.zeta, path), b"private")
        self.clock.advance(5)
        self.assertEqual(asked, [])
        self.send(self.alpha, self.name, b"public")
        self.clock.advance(5)
        self.assertEqual(asked, [QueueObject, QueueManagerObject])
        for queue in (path, "ZETA\\orders"):
            [view] = self.take(self.zeta, queue)
            self.assertEqual(view.hop_count, 3)

    def test_moved(self) -> None:
        """A queue that is made anew under its identifier elsewhere is sent to there, ten minutes later."""
        assert self.directory is not None
        self.send(self.alpha, self.name, b"before")
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.zeta, "ZETA\\orders"), [b"before"])
        name = parse_format_name(self.name)
        assert isinstance(name, PublicFormatName)
        self.run_to_end(self.zeta.service.delete_queue("ZETA\\orders"))
        self.directory.add(QueueObject(identifier=name.queue, pathname="GAMMA\\orders"))
        gamma = self.nodes["GAMMA"]
        self.kill("GAMMA")
        self.revive("GAMMA")
        gamma = self.nodes["GAMMA"]
        self.forget()
        self.send(self.alpha, self.name, b"after")
        self.clock.advance(10)
        self.assertEqual(gamma.service.inspection.status().refused, {"NACK_BAD_DST_Q": 1})
        self.assertEqual(self.zeta.service.inspection.status().refused, {})

    def test_workgroup(self) -> None:
        """MQMQ-2.1.7-04 MQQB-2.3-01: without a directory no public queue is a destination, but direct names.

        Among several names a public one is none either.
        """
        self.kill("ALPHA")
        alone = Node(self.network, self.clock, "ALPHA", IDENTIFIERS["ALPHA"], self.settings)
        alone.start()
        own = alone.service.inspection.queue(self.queue(alone)).format_name
        for name in (self.name, f"{own},{self.name}"):
            failure = self.failureResultOf(
                self.deferred(alone.service.send(name, [Message(body=b"x")])), MQError
            )
            self.assertEqual(failure.value.status, Status.MQ_ERROR_NO_DS)
        self.assertEqual(self.bodies(alone, ORDERS), [])
        path = self.queue(self.zeta)
        self.send(alone, "DIRECT=OS:zeta.example.com\\private$\\orders", b"direct")
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.zeta, path), [b"direct"])
