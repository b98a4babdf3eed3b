"""Limits that change while a queue manager runs, and what it counts."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.persistence.changes import PutQueue, PutState, RemoveState
from msmq.persistence.definition import UNLIMITED, QueueDefinition, QueueType
from msmq.queues.collection import QueueCollection
from msmq.queues.machine_quota import QuotaKind
from msmq.queues.model import ModelLimits, QueueManagerModel
from msmq.queues.outgoing import transit_name
from msmq.queues.queue import MessagePosition
from msmq.queues.queue_names import connector_path, is_connector_path
from msmq.structures.names.format_name import ConnectorFormatName, PrivateFormatName, parse_format_name
from msmq.structures.names.name_text import COMPUTER_SUFFIXES
from msmq.structures.names.path_name import parse_path_name
from msmq.structures.packet.kept_packet import kept_headers
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from tests.builders import ALPHA, BETA, GAMMA
from tests.queues.builders import NOW, arriving, create, delete, model, put, receive
from tests.queues.leaving.copy_case import asking
from tests.queues.simulation import Alpha

OTHERS = "DIRECT=OS:beta\\private$\\orders"


class LimitTests(SynchronousTestCase):
    """L{QueueManagerModel.configure}."""

    def test_each_limit(self) -> None:
        """Each limit applies at once, in bytes, as it does from the start; none is no limit."""
        for quota, in_bytes in ((3, 3 * 1024), (UNLIMITED, None)):
            limits = ModelLimits(
                quota=quota,
                journal_quota=quota,
                peer_dead_letters=quota,
                express_memory=in_bytes,
                packet_memory=in_bytes,
            )
            later = model()
            later.configure(limits)
            from_the_start = QueueManagerModel(
                ALPHA,
                computer_names=["ALPHA"],
                quota=quota,
                journal_quota=quota,
                peer_dead_letters=quota,
                express_memory=in_bytes,
                packet_memory=in_bytes,
                now=NOW,
            )
            for alpha in (later, from_the_start):
                storage = alpha.storage
                self.assertEqual(
                    [
                        storage.limit,
                        storage.journal_limit,
                        storage.peer_dead_letters,
                        storage.express_limit,
                        storage.cache_limit,
                    ],
                    [in_bytes] * 5,
                )
                kilobytes = None if quota == UNLIMITED else quota
                self.assertEqual([alpha.quotas.kilobytes(kind) for kind in QuotaKind], [kilobytes] * 2)

    def test_defaults(self) -> None:
        """Peers may fill 64 MiB of the dead-letter queue; journals and memory have no limit."""
        storage = model().storage
        self.assertEqual(storage.peer_dead_letters, 64 * 1024 * 1024)
        self.assertEqual((storage.journal_limit, storage.express_limit, storage.cache_limit), (None,) * 3)
        alone = QueueManagerModel(ALPHA, computer_names=["ALPHA"], now=NOW)
        self.assertFalse(alone.is_local(parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\orders")))
        self.assertFalse(alone.is_hardened)


class NumberTests(SynchronousTestCase):
    """The numbers of private queues."""

    def test_stored(self) -> None:
        """The last number is stored with each queue, in the 32 bits that it has."""
        alpha = model()
        for name in ("orders", "other"):
            path = parse_path_name(f".\\private$\\{name}")
            creation = alpha.create_queue(path, identifier=GAMMA, now=NOW)
            [value] = [each.value for each in creation.changes if isinstance(each, PutState)]
            self.assertEqual(value, creation.queue.definition.number.to_bytes(4, "little"))


class CountTests(SynchronousTestCase):
    """What a queue manager counts."""

    def setUp(self) -> None:
        self.model = model()

    def test_queues(self) -> None:
        """Queues of its own, outgoing queues, and paused ones."""
        queue, other = create(self.model), create(self.model, "other")
        self.model.outgoing(parse_format_name(OTHERS), NOW)
        collection = self.model.collection
        self.assertEqual((self.model.queue_count, collection.outgoing_count), (2, 1))
        self.assertIs(collection.of_identifier(queue.definition.identifier), queue)
        self.assertIsNone(collection.of_identifier(GAMMA))
        self.assertEqual(self.model.paused_count, 0)
        for each in (queue, other, other):
            self.model.set_paused(each, True, NOW)
        self.assertEqual(self.model.paused_count, 2)
        self.model.set_paused(queue, False, NOW)
        self.assertEqual(self.model.paused_count, 1)
        delete(self.model, other)
        self.assertEqual((self.model.queue_count, self.model.paused_count), (1, 0))

    def test_system_queues(self) -> None:
        """There are three, each with its suffix."""
        names = self.model.names
        self.assertEqual(
            {queue.definition.path for queue in names.system_queues()},
            {"system$;journal", "system$;deadletter", "system$;deadxact"},
        )
        for suffix in COMPUTER_SUFFIXES:
            self.assertIn(suffix.value.lower(), self.model.system_queue(suffix).definition.path)

    def test_pause_over_a_restart(self) -> None:
        """A stored pause is in effect again, and its end or the deletion of the queue removes it."""
        alpha = Alpha()
        for name in ("orders", "other"):
            alpha.create(name)
        change = alpha.model.pause_change(alpha.find(".\\private$\\orders"), True)
        assert isinstance(change, PutState)
        alpha.store.ask([change])
        alpha = alpha.restart()
        queue, other = (alpha.find(f".\\private$\\{name}") for name in ("orders", "other"))
        self.assertEqual((queue.withholds, other.withholds, alpha.model.paused_count), (True, False, 1))
        self.assertEqual(alpha.model.pause_change(queue, False), RemoveState(change.name))
        self.assertIn(RemoveState(change.name), alpha.model.delete_queue(queue).changes)
        self.assertEqual(alpha.model.paused_count, 0)
        changes = alpha.model.delete_queue(other).changes
        self.assertEqual([each for each in changes if isinstance(each, RemoveState)], [])


class OverflowTests(SynchronousTestCase):
    """Express messages beyond the memory for them."""

    def test_packet_after_the_store_has_it(self) -> None:
        """An available message stays in memory then only as far as the limit for packets allows."""
        for limit in (None, 0):
            alpha = Alpha(express_memory=0, packet_memory=limit)
            queue = alpha.create()
            alpha.put(queue, arriving(b"1"))
            alpha.confirm(alpha.receive(queue))
            alpha.store.is_slow = True
            alpha.put(queue, arriving(b"2"))
            [position] = queue.peek(1)
            self.assertIsNotNone(position.view, "the store does not have it yet")
            alpha.store.drain()
            is_kept = limit is None
            self.assertEqual((position.is_cached, position.view is not None), (is_kept, is_kept))
            self.assertEqual(alpha.model.storage.cached, position.size * is_kept)
            self.assertEqual(alpha.bodies(queue), [b"2"])


class AdoptionTests(SynchronousTestCase):
    """Queues that have a definition already, and connector queues."""

    def test_connector(self) -> None:
        """A private queue of this name is the connector queue of a network, with or without transactions."""
        alpha = model()
        for is_transactional, suffix in ((False, ""), (True, "-xactonly")):
            name = ConnectorFormatName(GAMMA, is_transactional)
            path = f"private$\\connector-{GAMMA}{suffix}"
            self.assertEqual(connector_path(name), path)
            self.assertFalse(alpha.is_local(name))
            self.assertIsNone(alpha.find(name))
            queue = create(alpha, path.partition("\\")[2])
            self.assertTrue(alpha.is_local(name))
            self.assertIs(alpha.find(name), queue)
        self.assertTrue(is_connector_path(f"PRIVATE$\\Connector-{GAMMA}"))
        self.assertFalse(is_connector_path("private$\\orders"))

    def test_long_name(self) -> None:
        """An outgoing queue has a name of any length; its label is the beginning of it."""
        for length in (124, 125, 148):
            text = "DIRECT=OS:beta\\private$\\".ljust(length, "x")
            queue = model().outgoing(parse_format_name(text), NOW, base_priority=-5)
            definition = queue.definition
            self.assertEqual((definition.path, definition.label), (text, text[:124]))
            self.assertEqual((definition.created, definition.modified), (NOW.unix_seconds,) * 2)
            self.assertEqual((definition.base_priority, definition.type), (-5, QueueType.OUTGOING))

    def test_transit(self) -> None:
        """What passes through to a queue manager waits in a queue of its own."""
        alpha = model()
        self.assertEqual(transit_name(BETA), PrivateFormatName(BETA, 0))
        for name, is_transit in (
            (transit_name(BETA), True),
            (PrivateFormatName(BETA, 1), False),
            (parse_format_name(OTHERS), False),
        ):
            self.assertIs(alpha.outgoing(name, NOW).is_transit, is_transit)

    def test_adopted(self) -> None:
        """A queue with a given definition is there when that is stored; its path is taken until then."""
        collection: QueueCollection = model().collection
        definition = QueueDefinition(GAMMA, "taken", type=QueueType.PUBLIC)
        creation = collection.adopt(definition)
        self.assertEqual(creation.changes, (PutQueue(definition),))
        self.assertTrue(creation.queue.is_stored)
        error = self.assertRaises(MQError, collection.adopt, definition)
        self.assertEqual(error.status, Status.MQ_ERROR_QUEUE_EXISTS)
        collection.abandon(creation)
        creation = collection.adopt(definition)
        collection.created(creation)
        self.assertIs(collection.of_identifier(GAMMA), creation.queue)
        self.assertRaises(MQError, collection.adopt, definition)


class QueueTests(SynchronousTestCase):
    """L{Queue} and L{MessagePosition}."""

    def setUp(self) -> None:
        self.model = model()
        self.queue = create(self.model)

    def test_oldest_arrival(self) -> None:
        """The earliest arrival among the first messages of each priority; locked ones do not count."""
        self.assertIsNone(self.queue.oldest_arrival)
        for seconds, priority in ((3, 7), (1, 3), (2, 0), (4, 3)):
            put(self.model, self.queue, arriving(priority=priority), now=NOW.later(seconds))
        for oldest in (1, 2, 2, 4):
            self.assertEqual(self.queue.oldest_arrival, NOW.wall + oldest)
            [first] = [each for each in self.queue.peek(9) if each.arrived == NOW.wall + oldest]
            if oldest == 2 and self.queue.available_count == 3:
                [first] = self.queue.peek(1)
            self.queue.take_one(first, "reader")
        self.assertIsNone(self.queue.oldest_arrival)

    def test_unread(self) -> None:
        """A packet that is not in memory cannot be had; one that is comes without its local headers."""
        position = MessagePosition(self.queue, 0x1234, None, 1, 0.0)
        for part in ("packet", "record"):
            self.assertIn("0x1234", str(self.assertRaises(LocalProtocolError, getattr, position, part)))
        packet = asking(b"1").packet
        record = packet + kept_headers(".\\private$\\failed")
        position.view = UserMessageView(record)
        self.assertEqual((position.packet, position.record), (packet, record))
        position.view = UserMessageView(arriving(b"1").packet)
        self.assertIs(position.packet, position.view.packet)

    def test_chosen(self) -> None:
        """A reader may name the messages that it takes, and takes as many as it wants."""
        put(self.model, self.queue, b"1", b"2", b"3")
        first, second, third = self.queue.peek(3)
        taken, effects = self.model.take(self.queue, 2, "reader", NOW, [third, first, second])
        self.assertEqual((taken, effects), ([third, first], []))
        self.assertEqual([each.owner for each in taken], ["reader", "reader"])
        self.assertEqual(receive(self.model, self.queue, count=9), [second])
