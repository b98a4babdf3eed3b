"""Which queue a name means."""

from __future__ import annotations

import gc
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import PutQueue
from msmq.persistence.definition import QueueDefinition, QueuePrivacy, QueueType
from msmq.persistence.snapshot import Snapshot
from msmq.queues.arriving.message import Message
from msmq.queues.arriving.packet_builder import build_packet
from msmq.queues.queue_names import REMEMBERED_DESTINATIONS
from msmq.structures.names.format_name import PrivateFormatName, PublicFormatName, parse_format_name
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.names.path_name import parse_path_name
from msmq.structures.names.queue_names import DirectQueueFormatName
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from tests.builders import ALPHA, BETA, GAMMA
from tests.queues.builders import NOW, arriving, create, delete, model, put, receive, take_out

PUBLIC = QueueDefinition(identifier=GAMMA, path="board", type=QueueType.PUBLIC)


def forged(name: str) -> UserMessageView:
    """A message for a direct name that no sender of ours would write."""
    honest = "OS:alpha\\private$\\".ljust(len(name), "x")
    packet = arriving(destination=f"DIRECT={honest}").packet
    return UserMessageView(packet.replace(honest.encode("utf-16-le"), name.encode("utf-16-le")))


class FindTests(SynchronousTestCase):
    """Names that applications use."""

    def setUp(self) -> None:
        self.model = model()
        self.queue = create(self.model, "Orders")

    def test_names_of_a_private_queue(self) -> None:
        """MQDMPR-3.1.7.1.5-12: a queue is found by every format name that means it, in any case."""
        number = self.queue.definition.number
        for text in (
            "DIRECT=OS:alpha\\private$\\orders",
            "DIRECT=OS:ALPHA\\PRIVATE$\\ORDERS",
            "direct=os:alpha.example.com\\private$\\orders",
            "DIRECT=OS:localhost\\private$\\orders",
            "DIRECT=OS:.\\private$\\orders",
            "DIRECT=TCP:127.0.0.2\\private$\\orders",
            "DIRECT=TCP:::1\\private$\\orders",
            f"PRIVATE={ALPHA}\\{number:x}",
        ):
            with self.subTest(text=text):
                self.assertIs(self.model.find(parse_format_name(text)), self.queue)

    def test_paths_of_a_private_queue(self) -> None:
        """A path finds it with a dot or one of the computer's names."""
        for text in (".\\private$\\orders", "ALPHA\\Private$\\ORDERS", "alpha.example.com\\private$\\orders"):
            with self.subTest(text=text):
                self.assertIs(self.model.find(parse_path_name(text)), self.queue)

    def test_names_of_others(self) -> None:
        """Names of other computers, and of what no queue of ours has, find nothing here."""
        number = self.queue.definition.number
        for text in (
            "DIRECT=OS:beta\\private$\\orders",
            "DIRECT=TCP:127.0.0.3\\private$\\orders",
            "DIRECT=OS:127.0.0.2\\private$\\orders",
            "DIRECT=HTTP://alpha/msmq/private$/orders",
            "DIRECT=OS:alpha\\orders",
            "DIRECT=OS:alpha\\private$\\bills;JOURNAL",
            "DIRECT=OS:alpha\\private$\\orders;sub",
            "DIRECT=OS:beta\\SYSTEM$;DEADLETTER",
            f"PRIVATE={BETA}\\{number:x}",
            f"PRIVATE={ALPHA}\\{number + 1:x}",
            f"PRIVATE={BETA}\\{number:x};JOURNAL",
            f"PRIVATE={ALPHA}\\{number + 1:x};JOURNAL",
            f"PUBLIC={GAMMA}",
            f"MACHINE={BETA};JOURNAL",
            "MULTICAST=234.1.1.1:8001",
        ):
            with self.subTest(text=text):
                self.assertIsNone(self.model.find(parse_format_name(text)))
        for text in ("beta\\private$\\orders", ".\\orders", ".\\private$\\bills;JOURNAL"):
            with self.subTest(text=text):
                self.assertIsNone(self.model.find(parse_path_name(text)))

    def test_names_of_what_belongs_to_a_queue(self) -> None:
        """Its journal and its subqueues are found by every name of the queue, in any case."""
        number = self.queue.definition.number
        subqueue = self.model.collection.subqueue(self.queue, "Retry", NOW)
        for text in (
            "DIRECT=OS:alpha\\private$\\orders;journal",
            "DIRECT=TCP:127.0.0.2\\private$\\ORDERS;JOURNAL",
            f"PRIVATE={ALPHA}\\{number:x};JOURNAL",
        ):
            with self.subTest(text=text):
                self.assertIs(self.model.find(parse_format_name(text)), self.queue.journal)
        self.assertIs(self.model.find(parse_path_name(".\\private$\\orders;JOURNAL")), self.queue.journal)
        for name in (
            parse_format_name("DIRECT=OS:alpha\\private$\\orders;retry"),
            parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\orders;RETRY"),
            parse_path_name(".\\private$\\orders;Retry"),
        ):
            with self.subTest(name=name):
                self.assertIs(self.model.find(name), subqueue)
        self.assertIsNone(self.model.find(parse_path_name(".\\private$\\orders;other")))

    def test_names_of_the_system_queues(self) -> None:
        """Each queue of the system has its path, its direct names and its machine name."""
        for suffix in (QueueSuffix.DEADLETTER, QueueSuffix.DEADXACT, QueueSuffix.JOURNAL):
            queue = self.model.system_queue(suffix)
            for name in (
                parse_path_name(f".\\system${suffix.tail.lower()}"),
                parse_format_name(f"DIRECT=OS:alpha\\System${suffix.tail}"),
                parse_format_name(f"DIRECT=TCP:127.0.0.2\\SYSTEM${suffix.tail}"),
                parse_format_name(f"MACHINE={ALPHA}{suffix.tail}"),
            ):
                with self.subTest(name=name):
                    self.assertIs(self.model.find(name), queue)
                    self.assertTrue(self.model.is_local(name))

    def test_every_queue_has_a_name(self) -> None:
        """A queue of any kind is found by its name."""
        self.model.restore(Snapshot(queues=[PUBLIC]), NOW)
        board = self.model.find(PublicFormatName(GAMMA))
        assert board is not None
        for queue in (self.queue, board):
            self.model.collection.subqueue(queue, "Retry", NOW)
        collection = self.model.collection
        nameless = (collection.awaiting, collection.unproven)
        named = [queue for queue in collection.all_queues() if queue not in nameless]
        self.assertEqual(len(named), 3 + 2 * 3)
        for queue in named:
            with self.subTest(path=queue.definition.path):
                self.assertIs(self.model.find(self.model.format_name(queue)), queue)
        self.assertEqual(str(self.model.format_name(board)), f"PUBLIC={str(GAMMA).upper()}")

    def test_own_names(self) -> None:
        """A name may be this queue manager's although no queue has it."""
        for text, is_local in (
            ("DIRECT=OS:alpha\\private$\\nothing", True),
            ("DIRECT=TCP:127.0.0.2\\nothing", True),
            ("DIRECT=TCP:127.0.0.3\\nothing", False),
            (f"PRIVATE={ALPHA}\\ffff", True),
            (f"PUBLIC={GAMMA}", False),
        ):
            with self.subTest(text=text):
                self.assertEqual(self.model.is_local(parse_format_name(text)), is_local)

    def test_format_name(self) -> None:
        """A queue of ours is known everywhere by our GUID and its number."""
        name = self.model.format_name(self.queue)
        self.assertEqual(name, PrivateFormatName(ALPHA, self.queue.definition.number))
        self.assertIs(self.model.find(name), self.queue)


class ArrivalTests(SynchronousTestCase):
    """Names in messages that came here."""

    def setUp(self) -> None:
        self.model = model()
        self.queue = create(self.model, "Orders")

    def test_host_of_a_direct_name_does_not_count(self) -> None:
        """A message sent to any of our names is for the queue in the path."""
        for text in (
            "DIRECT=OS:alpha\\private$\\orders",
            "DIRECT=OS:nickname\\PRIVATE$\\orders",
            "DIRECT=TCP:10.1.2.3\\private$\\ORDERS",
        ):
            view = arriving(destination=text)
            self.assertIs(self.model.queue_for(view), self.queue)
            self.assertIs(self.model.queue_for(view), self.queue)

    def test_number(self) -> None:
        """A private number is one of ours."""
        number = self.queue.definition.number
        self.assertIs(
            self.model.queue_for(arriving(destination=PrivateFormatName(ALPHA, number))), self.queue
        )
        self.assertIsNone(self.model.queue_for(arriving(destination=PrivateFormatName(ALPHA, number + 1))))

    def test_public_queue(self) -> None:
        """A public queue is found by its GUID."""
        self.model.restore(Snapshot(queues=[PUBLIC]), NOW)
        queue = self.model.find(PublicFormatName(GAMMA))
        assert queue is not None
        self.assertEqual(queue.definition, PUBLIC)
        for identifier, expected in ((GAMMA, queue), (BETA, None)):
            packet = build_packet(
                Message(),
                PublicFormatName(identifier),
                source=BETA,
                destination_queue_manager=ALPHA,
                message_id=1,
                sent_time=0,
            )
            self.assertIs(self.model.queue_for(UserMessageView(packet)), expected)

    def test_unknown_queue(self) -> None:
        """A path that no queue has finds nothing, nor does the journal of one that is there."""
        self.assertIsNone(self.model.queue_for(arriving(destination="DIRECT=OS:alpha\\private$\\bills")))

    def test_queues_that_are_no_destinations(self) -> None:
        """No message that arrives is for a journal, a subqueue or a system queue."""
        self.model.collection.subqueue(self.queue, "sub", NOW)
        for tail in ("private$\\orders;JOURNAL", "private$\\orders;sub", "SYSTEM$;DEADLETTER"):
            with self.subTest(tail=tail):
                view = forged(f"OS:alpha\\{tail}")
                name = view.destination
                assert isinstance(name, DirectQueueFormatName)
                self.assertEqual(name.text, f"OS:alpha\\{tail}")
                self.assertIsNone(self.model.queue_for(view))

    def test_queue_that_comes_and_goes(self) -> None:
        """A name means the queue that has it now."""
        view = arriving(destination="DIRECT=OS:alpha\\private$\\bills")
        bills = create(self.model, "bills")
        self.assertIs(self.model.queue_for(view), bills)
        delete(self.model, bills)
        self.assertIsNone(self.model.queue_for(view))
        again = create(self.model, "bills")
        self.assertIs(self.model.queue_for(view), again)

    def test_spellings_are_not_hoarded(self) -> None:
        """A peer that spells its destination anew each time fills no memory."""
        for number in range(REMEMBERED_DESTINATIONS + 100):
            self.model.queue_for(arriving(destination=f"DIRECT=OS:h{number}\\private$\\orders"))
        remembered = [
            found
            for found in gc.get_referrers(self.queue)
            if isinstance(found, dict) and all(isinstance(key, bytes) for key in found)
        ]
        self.assertLessEqual(sum(len(found) for found in remembered), REMEMBERED_DESTINATIONS)


class CreateTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.7.1.3 Create Queue."""

    def setUp(self) -> None:
        self.model = model()

    def refused(self, text: str) -> tuple[Status, str]:
        with self.assertRaises(MQError) as caught:
            self.model.create_queue(parse_path_name(text), identifier=GAMMA, now=NOW)
        return caught.exception.status, str(caught.exception.detail)

    def test_properties(self) -> None:
        """Every property that its creator gave is kept and handed to the store."""
        creation = self.model.create_queue(
            parse_path_name("alpha\\Private$\\Orders"),
            identifier=GAMMA,
            now=NOW,
            label="My orders",
            transactional=True,
            journal=True,
            log=True,
            quota=10,
            journal_quota=20,
            authenticate=True,
            privacy=QueuePrivacy.BODY,
        )
        definition = creation.queue.definition
        self.assertEqual(
            definition,
            QueueDefinition(
                identifier=GAMMA,
                path="private$\\Orders",
                number=definition.number,
                type=QueueType.PRIVATE,
                label="My orders",
                transactional=True,
                journal=True,
                log=True,
                quota=10,
                journal_quota=20,
                authenticate=True,
                privacy=QueuePrivacy.BODY,
                created=NOW.unix_seconds,
                modified=NOW.unix_seconds,
            ),
        )
        self.assertEqual(creation.changes[0], PutQueue(definition))

    def test_times(self) -> None:
        """MQDMPR-3.1.1.2-03: a queue knows the second, since 1970, in which it was created."""
        definition = create(self.model).definition
        self.assertEqual((definition.created, definition.modified), (1_700_000_000, 1_700_000_000))

    def test_new_queue_is_empty(self) -> None:
        """MQDMPR-3.1.7.1.3-05: a new queue holds no messages, no bytes and no readers."""
        queue = create(self.model)
        self.assertEqual((queue.message_count, queue.total_bytes, len(queue.readers)), (0, 0, 0))
        self.assertFalse(queue.has_available or queue.is_deleted)

    def test_there_once_it_is_stored(self) -> None:
        """MQDMPR-3.1.7.1.3-13: a queue is found when its definition is stored, and not before."""
        name = parse_path_name(".\\private$\\orders")
        creation = self.model.create_queue(name, identifier=GAMMA, now=NOW)
        self.assertIsNone(self.model.find(name))
        self.assertEqual(list(self.model.queues()), [])
        self.model.created(creation)
        self.assertIs(self.model.find(name), creation.queue)
        self.assertEqual(list(self.model.queues()), [creation.queue])

    def test_name_is_taken(self) -> None:
        """A second queue of the same name is refused, in any case, also while the first is being stored."""
        creation = self.model.create_queue(parse_path_name(".\\private$\\orders"), identifier=BETA, now=NOW)
        self.assertEqual(self.refused("ALPHA\\private$\\ORDERS")[0], Status.MQ_ERROR_QUEUE_EXISTS)
        self.model.created(creation)
        status, detail = self.refused(".\\private$\\Orders")
        self.assertEqual(status, Status.MQ_ERROR_QUEUE_EXISTS)
        self.assertIn("private$\\Orders", detail)

    def test_abandoned(self) -> None:
        """The name of a queue that could not be stored is free."""
        name = parse_path_name(".\\private$\\orders")
        self.model.abandon(self.model.create_queue(name, identifier=BETA, now=NOW))
        self.assertIsNone(self.model.find(name))
        self.model.created(self.model.create_queue(name, identifier=GAMMA, now=NOW))
        self.assertIsNotNone(self.model.find(name))

    def test_numbers(self) -> None:
        """No private queue has the number of another, not even of a former one.

        MQDMPR-3.1.1.2-06 MQDMPR-3.1.7.1.3-08
        """
        first, second = create(self.model, "a"), create(self.model, "b")
        delete(self.model, second)
        third = create(self.model, "b")
        numbers = [queue.definition.number for queue in (first, second, third)]
        self.assertEqual(len(set(numbers)), 3)
        self.assertGreater(min(numbers), 15)

    def test_other_computer(self) -> None:
        """Queues are made on this computer only."""
        status, detail = self.refused("beta\\private$\\orders")
        self.assertEqual(status, Status.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME)
        self.assertIn("beta", detail)

    def test_public_queue(self) -> None:
        """A public queue needs a directory."""
        self.assertEqual(self.refused(".\\orders")[0], Status.MQ_ERROR_NO_DS)

    def test_journal_and_subqueue(self) -> None:
        """No queue is made of a path that names a journal, a subqueue or a system queue."""
        for text in (".\\private$\\q;JOURNAL", ".\\private$\\q;sub", ".\\system$;deadletter"):
            self.assertEqual(self.refused(text)[0], Status.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME)
        self.assertEqual(list(self.model.queues()), [])
        self.assertIn("cannot contain ';'", self.refused(".\\private$\\a;b")[1])
        self.assertIn("only private queues", self.refused(".\\private$\\a;journal")[1])

    def test_system_queues(self) -> None:
        """The queues of the acknowledgements are not for applications."""
        self.assertEqual(self.refused(".\\private$\\Order_Queue$")[0], Status.MQ_ERROR_ACCESS_DENIED)

    def test_refused_properties_take_no_name(self) -> None:
        """A name is still free after a queue was refused for its properties."""
        name = parse_path_name(".\\private$\\orders")
        with self.assertRaises(MQError):
            self.model.create_queue(name, identifier=GAMMA, now=NOW, quota=-1)
        self.model.create_queue(name, identifier=GAMMA, now=NOW)


class DeleteTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.7.1.4 Delete Queue."""

    def test_not_found_afterwards(self) -> None:
        """MQDMPR-3.1.1.1-35: the collection holds the queues that are there, under all their names."""
        alpha = model()
        first, second = create(alpha, "a"), create(alpha, "b")
        self.assertEqual(list(alpha.queues()), [first, second])
        alpha.delete_queue(first)
        self.assertEqual(list(alpha.queues()), [second])
        self.assertIsNone(alpha.find(parse_path_name(".\\private$\\a")))
        self.assertIsNone(alpha.find(PrivateFormatName(ALPHA, first.definition.number)))
        self.assertIsNone(alpha.find(PublicFormatName(first.definition.identifier)))

    def test_deleting_twice(self) -> None:
        """A queue that is gone is not found."""
        alpha = model()
        queue = create(alpha)
        alpha.delete_queue(queue)
        with self.assertRaises(MQError) as caught:
            alpha.delete_queue(queue)
        self.assertEqual(caught.exception.status, Status.MQ_ERROR_QUEUE_NOT_FOUND)

    def test_name_is_taken_until_it_is_out_of_the_store(self) -> None:
        """While its messages are being logged, no other queue gets its name, in any case."""
        alpha = model()
        deletion = alpha.delete_queue(create(alpha))
        for name in (".\\private$\\orders", ".\\private$\\ORDERS"):
            with self.assertRaises(MQError) as caught:
                alpha.create_queue(parse_path_name(name), identifier=GAMMA, now=NOW)
            self.assertEqual(caught.exception.status, Status.MQ_ERROR_QUEUE_EXISTS)
            self.assertIsNone(alpha.find(parse_path_name(name)))
        alpha.deleted(deletion)
        queue = create(alpha)
        self.assertEqual(list(alpha.queues()), [queue])

    def test_outgoing_queue(self) -> None:
        """An outgoing queue that was deleted is made anew for the next message; what waits is not deleted."""
        alpha = model()
        name = parse_format_name("DIRECT=OS:beta\\q")
        outgoing = alpha.outgoing(name, NOW)
        put(alpha, outgoing, b"waits")
        with self.assertRaises(MQError) as caught:
            alpha.delete_queue(outgoing)
        self.assertEqual(caught.exception.status, Status.MQ_ERROR_ILLEGAL_OPERATION)
        self.assertIs(alpha.outgoing(name, NOW), outgoing)
        take_out(alpha, receive(alpha, outgoing))
        alpha.delete_queue(outgoing)
        self.assertEqual(list(alpha.outgoing_queues()), [])
        self.assertIsNot(alpha.outgoing(name, NOW), outgoing)

    def test_identifier_is_free_of_the_path(self) -> None:
        """A queue of the same path is another queue."""
        alpha = model()
        path = parse_path_name(".\\private$\\q")
        first = alpha.create_queue(path, identifier=UUID(int=1), now=NOW)
        alpha.created(first)
        delete(alpha, first.queue)
        second = alpha.create_queue(path, identifier=UUID(int=2), now=NOW)
        alpha.created(second)
        self.assertIs(alpha.find(path), second.queue)
