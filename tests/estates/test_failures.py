"""[MS-MQOD] 2.7: behaviour of an estate under common failures.

2.7.3 is about an external transaction coordinator, which is not supported: enlisting is refused at once.
"""

from __future__ import annotations

from uuid import UUID

from msmq.interfaces.storage import StorageFull
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status
from tests.estates.support import EstateTestCase
from tests.manager.support import FaultyStore
from tests.nodes.support import ADDRESSES

ORDERS = ".\\private$\\orders"


class RestartTests(EstateTestCase):
    """[MS-MQOD] 2.7.1 Queue Manager Restart."""

    def setUp(self) -> None:
        super().setUp()
        self.queue(self.zeta)
        self.queue(self.zeta, "ordered", transactional=True)
        self.plain = self.private_name(self.zeta, ORDERS)
        self.ordered = self.private_name(self.zeta, ".\\private$\\ordered")

    def test_sender(self) -> None:
        """Durable messages wait in the outgoing queues over a crash of the sender; express ones are lost."""
        self.isolate("ALPHA")
        self.commit(self.alpha, self.ordered, b"1", b"2")
        self.recoverable(self.alpha, self.plain, b"kept")
        self.send(self.alpha, self.plain, b"express")
        self.wait(5)
        self.crash("ALPHA")
        self.restart("ALPHA")
        self.rejoin("ALPHA")
        self.wait(120)
        self.assertEqual(self.take_in_transaction(self.zeta, ".\\private$\\ordered"), [b"1", b"2"])
        self.assertEqual(self.bodies(self.zeta, ORDERS), [b"kept"])

    def test_receiver(self) -> None:
        """Durable messages stay in their queue over a crash of the receiver, and are received once."""
        self.commit(self.alpha, self.ordered, b"1", b"2")
        self.recoverable(self.alpha, self.plain, b"kept")
        self.send(self.alpha, self.plain, b"express")
        self.wait(5)
        self.crash("ZETA")
        self.restart("ZETA")
        self.wait(120)
        self.assertEqual(self.take_in_transaction(self.zeta, ".\\private$\\ordered"), [b"1", b"2"])
        self.assertEqual(self.bodies(self.zeta, ORDERS), [b"kept"])

    def test_message_that_expires_meanwhile(self) -> None:
        """A message that expires while its queue manager is down leaves when that starts again."""
        self.isolate("ALPHA")
        message = Message(
            body=b"late", delivery=Delivery.RECOVERABLE, time_to_reach_queue=60, dead_letter=True
        )
        self.run_to_end(self.alpha.service.send(self.plain, [message]))
        self.crash("ALPHA")
        self.wait(120)
        self.restart("ALPHA")
        self.wait(2)
        self.assertEqual(self.waiting(self.alpha), 0)
        self.assertEqual(self.system_bodies(self.alpha, ".\\system$;deadletter"), [b"late"])


class TransientNetworkFailureTests(EstateTestCase):
    """[MS-MQOD] 2.7.2 Transient Network Failure."""

    def test_transfer_resumes_by_itself(self) -> None:
        """Any link of the route goes away and comes back: transfer resumes, and each message arrives once."""
        path = self.queue(self.zeta, transactional=True)
        name = self.private_name(self.zeta, path)
        expected = []
        for number, member in enumerate(ADDRESSES):
            self.isolate(member)
            body = b"%d" % number
            expected.append(body)
            self.commit(self.alpha, name, body)
            self.wait(15)
            self.rejoin(member)
            self.wait(90)
        self.assertEqual(self.take_in_transaction(self.zeta, path), expected)
        for name in ADDRESSES:
            self.assertEqual(self.waiting(self.nodes[name]), 0, name)

    def test_local_work_goes_on(self) -> None:
        """A queue manager without a network goes on with its local queues."""
        path = self.queue(self.alpha)
        self.isolate("ALPHA")
        self.send(self.alpha, path, b"local")
        self.assertEqual(self.bodies(self.alpha, path), [b"local"])


class TransactionCoordinatorTests(EstateTestCase):
    """[MS-MQOD] 2.7.3 Transaction Coordinator Unavailable: it always is."""

    def test_enlisting_is_refused(self) -> None:
        """Enlisting in an external transaction is refused at once; internal transactions go on."""
        with self.assertRaises(MQError) as caught:
            self.alpha.service.enlist(UUID(int=5))
        self.assertEqual(caught.exception.status, Status.MQ_ERROR_DTC_CONNECT)
        path = self.queue(self.alpha, transactional=True)
        self.commit(self.alpha, path, b"internal")
        self.assertEqual(self.take_in_transaction(self.alpha, path), [b"internal"])


class DirectoryUnavailableTests(EstateTestCase):
    """[MS-MQOD] 2.7.4 Directory Unavailable."""

    def test_while_running(self) -> None:
        """Operations that need the directory fail or wait; all others continue; everything works when it is
        back.
        """
        path = self.queue(self.zeta)
        name = self.private_name(self.zeta, path)
        self.recoverable(self.alpha, name, b"before")
        self.wait(5)
        assert self.directory is not None
        self.directory.is_connected = False
        self.recoverable(self.alpha, name, b"during")
        failed = self.deferred(self.alpha.service.create_queue("ALPHA\\public"))
        self.assertEqual(self.failureResultOf(failed, MQError).value.status, Status.MQ_ERROR_NO_DS)
        self.queue(self.alpha, "private")
        self.wait(60)
        self.directory.is_connected = True
        self.wait(120)
        self.assertEqual(self.bodies(self.zeta, path), [b"before", b"during"])
        self.run_to_end(self.alpha.service.create_queue("ALPHA\\public"))

    def test_at_start(self) -> None:
        """A member that starts without its directory has its queues and direct names; the rest resumes."""
        path = self.queue(self.zeta)
        name = self.private_name(self.zeta, path)
        local = self.queue(self.alpha, "local")
        self.crash("ALPHA")
        assert self.directory is not None
        self.directory.is_connected = False
        self.restart("ALPHA")
        self.send(self.alpha, local, b"local")
        self.recoverable(self.alpha, self.direct_name(self.zeta, path), b"direct")
        self.recoverable(self.alpha, name, b"routed")
        self.wait(20)
        self.assertEqual(self.bodies(self.alpha, local), [b"local"])
        self.assertIn(b"direct", [body for body in self.bodies(self.zeta, path) if body != b"routed"])
        self.directory.is_connected = True
        self.recoverable(self.alpha, name, b"routed again")
        self.wait(180)
        self.assertIn(b"routed again", self.bodies(self.zeta, path))
        self.assertEqual(self.waiting(self.alpha), 0)


class InternalStorageFailureTests(EstateTestCase):
    """[MS-MQOD] 2.7.5 Internal Storage Failure."""

    def test_full_disk_at_the_receiver(self) -> None:
        """A full disk refuses a local send; messages from afar wait at their sender until there is space."""
        full = FaultyStore()
        self.crash("ZETA")
        self.disks["ZETA"] = full
        self.restart("ZETA")
        path = self.queue(self.zeta, transactional=True)
        name = self.private_name(self.zeta, path)
        self.commit(self.alpha, name, b"1")
        self.wait(5)
        full.break_down(StorageFull("no space left"))
        self.commit(self.alpha, name, b"2")
        local = self.deferred(self.zeta.service.send(path, [Message(body=b"x", transactional=True)]))
        self.wait(60)
        error = self.failureResultOf(local, MQError).value
        self.assertEqual(error.status, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
        full.recover()
        self.wait(180)
        self.assertEqual(self.take_in_transaction(self.zeta, path), [b"1", b"2"])

    def test_full_disk_at_a_gate(self) -> None:
        """A gate whose disk is full stores and acknowledges nothing; nothing is lost on its account."""
        full = FaultyStore()
        self.crash("BETA")
        self.disks["BETA"] = full
        self.restart("BETA")
        path = self.queue(self.zeta)
        name = self.private_name(self.zeta, path)
        full.break_down(StorageFull("no space left"))
        self.recoverable(self.alpha, name, b"1", b"2")
        self.wait(60)
        self.assertEqual(self.waiting(self.alpha), 2)
        full.recover()
        self.wait(180)
        self.assertEqual(self.bodies(self.zeta, path), [b"1", b"2"])


class DirectoryInconsistencyTests(EstateTestCase):
    """[MS-MQOD] 2.7.6 Directory Inconsistency."""

    def test_reinstalled_queue_manager(self) -> None:
        """A reinstalled member takes over the directory object of its name, and the estate reaches it."""
        self.crash("ZETA")
        self.disks["ZETA"] = MemoryMessageStore(durable=True)
        self.restart("ZETA")
        path = self.queue(self.zeta)
        answers = self.queue(self.alpha, "answers")
        self.recoverable(
            self.alpha,
            self.private_name(self.zeta, path),
            b"to the new one",
            acknowledge=Acknowledge.POSITIVE_ARRIVAL,
            admin_queue=parse_format_name(self.private_name(self.alpha, answers)),
        )
        self.wait(60)
        self.assertEqual(self.bodies(self.zeta, path), [b"to the new one"])
        self.assertEqual(
            [view.message_class for view in self.take(self.alpha, answers)], [MessageClass.ACK_REACH_QUEUE]
        )
