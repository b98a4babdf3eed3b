"""State after the start of a queue manager, states of outgoing queues, and volatile state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred, fail
from twisted.logger import LogLevel, capturedLogs, formatEvent

from msmq.directory.memory import MemoryDirectory
from msmq.membership.attributes import DirectoryObject
from msmq.membership.entry import DirectoryEntry
from msmq.membership.enumerations import DirectoryError, DirectoryOperationResult
from msmq.membership.objects import EnterpriseObject, QueueManagerObject
from msmq.membership.requests import Attributes
from msmq.queues.arriving.message import Delivery, Message
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.management import OutgoingState
from msmq.structures.names.format_name import PrivateFormatName
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.status import MQError, Status
from msmq.testing.streams import Conditions
from tests.builders import ALPHA, GAMMA
from tests.nodes.support import Node, NodesTestCase

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
NOWHERE = "DIRECT=OS:NOWHERE\\private$\\orders"


class StartingTestCase(NodesTestCase):
    """Queue managers that keep what is recoverable, and ALPHA can be started again."""

    directory: MemoryDirectory | None = None

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        kwargs.setdefault("store", MemoryMessageStore(durable=True))
        return super().node(name, identifier, **kwargs)

    def restart(self) -> None:
        """Stop ALPHA, and start it with what it had."""
        self.alpha.deaf()
        self.successResultOf(self.alpha.service.stopService())
        self.alpha = self.node("ALPHA", ALPHA, store=self.alpha.store, directory=self.directory)
        self.alpha.start()


class SystemQueueTests(StartingTestCase):
    """[MS-MQDMPR] 3.1.3: the queues of the system."""

    def test_system_queues_exist(self) -> None:
        """The dead-letter queues and the machine journal exist from the start, and keep their messages.

        MQDMPR-3.1.1.1-34, MQDMPR-3.1.3-20.
        """
        self.queue(self.beta)
        message = Message(body=b"1", delivery=Delivery.RECOVERABLE, journal=True)
        self.run_to_end(self.alpha.service.send(TO_BETA, [message]))
        self.clock.advance(60)
        for _ in range(2):
            queues = {queue.path: queue for queue in self.alpha.service.inspection.system_queues()}
            names = {".\\system$;deadletter", ".\\system$;deadxact", ".\\system$;journal"}
            self.assertEqual(set(queues), names)
            self.assertEqual({queue.type for queue in queues.values()}, {"system"})
            self.assertEqual(queues[".\\system$;deadxact"].transactional, True)
            self.assertEqual(queues[".\\system$;journal"].messages, 1)
            for suffix in (QueueSuffix.DEADLETTER, QueueSuffix.DEADXACT, QueueSuffix.JOURNAL):
                self.assertTrue(self.alpha.model.system_queue(suffix).is_system)
            self.restart()

    def test_two_that_cannot_be_opened(self) -> None:
        """Those for order acknowledgements and change notifications can be neither opened nor created.

        MQDMPR-3.1.3-21.
        """
        service = self.alpha.service
        for name in ("order_queue$", "notify_queue$"):
            path = f".\\private$\\{name}"
            for access in QueueAccessType:
                for text in (path, f"DIRECT=OS:ALPHA\\private$\\{name}"):
                    with self.assertRaises(MQError):
                        service.open_queue(text, access)
            failed = self.failureResultOf(self.deferred(service.create_queue(path)), MQError)
            self.assertEqual(failed.value.status, Status.MQ_ERROR_ACCESS_DENIED)
        self.assertEqual(service.inspection.queues(), [])


class ReadOnlyDirectory(MemoryDirectory):
    """A directory that refuses every change, as L{IDirectory} describes it."""

    def create(self, created: DirectoryObject, attributes: Attributes = None) -> Deferred[UUID]:
        return fail(self._refusal())

    def delete(self, deleted: DirectoryObject) -> Deferred[None]:
        return fail(self._refusal())

    def write(self, written: DirectoryObject, attributes: Attributes = None) -> Deferred[None]:
        return fail(self._refusal())

    def write_if_unchanged(
        self, written: DirectoryObject, former: DirectoryEntry[Any], attributes: Sequence[str]
    ) -> Deferred[bool]:
        return fail(self._refusal())

    def _refusal(self) -> DirectoryError:
        return DirectoryError(DirectoryOperationResult.GENERIC_ERROR, "this directory is read-only")


class ReadOnlyTests(StartingTestCase):
    """A directory of one's own that only reads, as a plugin may be."""

    def test_start(self) -> None:
        """The queue manager starts with what the directory says of it, and one warning says what is missing.

        A public queue is refused with an error of MSMQ; private queues and messages need no write.
        """
        self.directory = ReadOnlyDirectory(self.clock)
        self.directory.add(EnterpriseObject(identifier=UUID(int=0xE1), name="estate"))
        self.directory.add(QueueManagerObject(identifier=ALPHA, computer_name="ALPHA"))
        with capturedLogs() as events:
            self.restart()
        reports = [text for event in events if "read-only" in (text := formatEvent(event))]
        self.assertEqual(len(reports), 1, reports)
        self.assertIn("the directory refuses to write the object of this queue manager", reports[0])
        self.assertEqual([event for event in events if event["log_level"] >= LogLevel.error], [])
        service = self.alpha.service
        self.assertEqual(service.inspection.status().state, "running")
        refused = self.failureResultOf(self.deferred(service.create_queue(".\\orders")), MQError)
        self.assertEqual(refused.value.status, Status.MQ_ERROR_DS_ERROR)
        self.assertIn("read-only", str(refused.value))
        self.successResultOf(self.deferred(service.create_queue(".\\private$\\orders")))
        path = self.queue(self.beta)
        self.send(self.alpha, TO_BETA, b"1")
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.beta, path), [b"1"])


class VolatileTests(StartingTestCase):
    """State that a restart resets."""

    def test_flags(self) -> None:
        """Throttled, DirectoryOffline and ConnectionActive are as at the beginning, and so is the dispatch.

        MQDMPR-3.1.1-03, MQDMPR-3.1.1.1-03.
        """
        self.directory = MemoryDirectory(self.clock)
        self.directory.add(EnterpriseObject(identifier=UUID(int=0xE1), name="estate"))
        self.restart()
        self.directory.is_connected = False
        making = self.deferred(self.alpha.service.create_queue(".\\orders"))
        self.assertEqual(self.failureResultOf(making, MQError).value.status, Status.MQ_ERROR_NO_DS)
        self.alpha.service.take_offline()
        self.alpha.model.storage.throttled = True
        self.directory.is_connected = True
        small = QueueManagerObject(identifier=ALPHA, computer_name="ALPHA", queue_manager_quota=2)
        self.successResultOf(self.directory.write(small, ("queue_manager_quota",)))
        path = self.queue(self.beta)
        self.restart()
        status = self.alpha.service.inspection.status()
        self.assertEqual((status.throttled, status.connection_active, status.state), (False, True, "running"))
        # What was read from the directory holds at once.
        sending = self.deferred(self.alpha.service.send(TO_BETA, [Message(body=bytes(3000))]))
        status = self.failureResultOf(sending, MQError).value.status
        self.assertEqual(status, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
        self.send(self.alpha, TO_BETA, b"1")
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.beta, path), [b"1"])

    def test_outgoing(self) -> None:
        """Its state and its history begin anew; where it goes, and what is in it, is kept (reading 10).

        MQDMPR-3.1.1.3-01.
        """
        self.beta.deaf()
        self.send(self.alpha, TO_BETA, b"1", delivery=Delivery.RECOVERABLE)
        self.clock.advance(10)
        self.assertTrue(self.alpha.service.inspection.outgoing_queue(TO_BETA).history)
        self.restart()
        queue = self.alpha.service.inspection.outgoing_queue(TO_BETA)
        self.assertEqual((queue.state, queue.messages, queue.history), ("WAITING", 1, []))


class OutgoingStateTests(StartingTestCase):
    """[MS-MQDMPR] 3.1.1.3 State, as C{msmq outgoing show} shows it."""

    conditions = Conditions(delay=1.0)

    def state(self, name: str = TO_BETA) -> str:
        state: str = self.alpha.service.inspection.outgoing_queue(name).state
        return state

    def test_life(self) -> None:
        """Inactive until there is a message, Waiting until there is a session, Connected, and over.

        MQDMPR-3.1.1.3-03, MQDMPR-3.1.1.3-04.
        """
        self.queue(self.beta)
        seen = []
        handle = self.alpha.service.open_queue(TO_BETA, QueueAccessType.SEND)
        seen.append(self.state())
        self.run_to_end(handle.send([Message(body=b"1")]))
        seen.append(self.state())
        self.clock.advance(20)
        seen.append(self.state())
        self.alpha.service.pause_outgoing(TO_BETA)
        seen.append(self.state())
        self.alpha.service.resume_outgoing(TO_BETA)
        self.run_to_end(handle.send([Message(body=b"2")]))
        seen.append(self.state())
        self.clock.advance(5)
        self.alpha.service.take_offline()
        seen.append(self.state())
        self.clock.advance(10)
        seen.append(self.state())
        self.assertEqual(
            seen,
            ["INACTIVE", "WAITING", "CONNECTED", "ONHOLD", "CONNECTED", "DISCONNECTING", "DISCONNECTED"],
        )

    def test_unknown_route(self) -> None:
        """NeedValidation: the name is not found, or no route to a queue manager is known.

        MQDMPR-3.1.1.3-03, MQDMPR-3.1.1.3-05.
        """
        unreachable = str(PrivateFormatName(GAMMA, 16))
        for name in (NOWHERE, unreachable):
            self.send(self.alpha, name, b"1")
        self.clock.advance(1)
        self.assertEqual([self.state(NOWHERE), self.state(unreachable)], ["NEED VALIDATION"] * 2)
        self.assertEqual(len(OutgoingState), 8)
