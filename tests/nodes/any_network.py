"""A world of queue managers, in which anything may come between them, and what has to be true in the end.

Everything in it happens by a clock that the test drives, and nothing by chance, so the same steps are the
same run.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from msmq.interfaces.storage import StorageError, StorageFull, StoredEvent
from msmq.manager.applications.reservation import Reservation
from msmq.membership.local import HostIdentity
from msmq.net.dialling_session_factory import DiallingSessionFactory
from msmq.net.resolver import NextHopAddress
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.queues.model import QueueManagerModel
from msmq.queues.queue_names import one_of
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from msmq.testing.clock import ManualClock
from msmq.testing.network import Network
from msmq.testing.streams import Conditions
from tests.builders import ALPHA, BETA, GAMMA
from tests.nodes.services import make_service
from tests.nodes.slow_store import SlowStore
from tests.shares import SHARES

PAYMENTS = ".\\private$\\payments"
LETTERS = ".\\private$\\letters"
MISSING = ".\\private$\\missing"
ADMIN = ".\\private$\\admin"
JOURNAL = ".\\system$;journal"
DEADLETTER = ".\\system$;deadletter"
DEADXACT = ".\\system$;deadxact"

WISHES = (
    Acknowledge.NONE,
    Acknowledge.POSITIVE_ARRIVAL | Acknowledge.NEGATIVE_ARRIVAL,
    Acknowledge.POSITIVE_RECEIVE | Acknowledge.NEGATIVE_RECEIVE | Acknowledge.NEGATIVE_ARRIVAL,
    Acknowledge.NEGATIVE_RECEIVE,
    Acknowledge.POSITIVE_ARRIVAL | Acknowledge.POSITIVE_RECEIVE,
)
"""What a message asks for, by its number."""

TROUBLE = {"full": StorageFull("there is no space"), "broken": StorageError("the disk is on fire")}

QUEUES = {"payments": PAYMENTS, "letters": LETTERS}
"""Where applications receive."""

DESTINATIONS = {**QUEUES, "missing": MISSING}
"""Where applications send: a queue that no queue manager has as well."""

Step = tuple[Any, ...]


@attrs.define(eq=False)
class Batch:
    """Messages that were sent together.

    @ivar first: the number of the first message, unique over all hosts; the others follow.
    @ivar reach: TimeToReachQueue in seconds.
    @ivar received: TimeToBeReceived in seconds.
    @ivar is_confirmed: the send was confirmed to the sender; C{None} while that is not known.
    @ivar first_id: the MessageID of the first, if it is known; those of the others follow.
    """

    sender: Host
    receiver: Host
    queue: str
    first: int
    count: int
    reach: int
    received: int
    is_confirmed: bool | None = None
    first_id: int | None = None

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.count)

    @property
    def is_transactional(self) -> bool:
        return self.queue == PAYMENTS


def is_journaled(number: int) -> bool:
    """Whether a message asks for a copy in the journal."""
    return number % 3 == 0


def is_mourned(number: int) -> bool:
    """Whether a message asks for a dead letter."""
    return number % 2 == 0


def wish(number: int) -> Acknowledge:
    """The acknowledgements that a message asks for."""
    return WISHES[number % len(WISHES)]


@attrs.define(eq=False)
class Receipt:
    """Messages that a reader has received, by LookupIdentifier.

    @ivar is_confirmed: they were received permanently, or returned; C{None} if that is not known.
    """

    views: dict[int, UserMessageView]
    is_confirmed: bool | None = None


class Host:
    """A queue manager that can lose power; its disk is all that stays."""

    def __init__(self, world: World, name: str, address: str, guid: UUID) -> None:
        self.world = world
        self.name = name
        self.address = address
        self.guid = guid
        self.disk = MemoryMessageStore(durable=True)
        self.receipts: dict[str, list[Receipt]] = {PAYMENTS: [], LETTERS: []}
        self._identifiers = random.Random(address)
        self.start()

    def new_identifier(self) -> UUID:
        return UUID(int=self._identifiers.getrandbits(128), version=4)

    def start(self) -> None:
        """Begin a life."""
        clock = self.world.clock
        host = self.world.network.host(self.address)
        self.store = SlowStore(self.disk, host, 0.004)
        model = QueueManagerModel(
            self.guid,
            computer_names=[self.name],
            is_own_address=one_of([self.address]),
            packet_memory=600,
            now=clock.now(),
        )

        async def lookup(name: str) -> Sequence[NextHopAddress]:
            return [NextHopAddress(name, 1801, host.client_endpoint(name, 1801))]

        factory = DiallingSessionFactory(self.guid, reactor=host, clock=clock, shares=SHARES, lookup=lookup)
        self.service = make_service(
            model,
            self.store,
            factory,
            host,
            clock,
            HostIdentity(self.name, qualified_computer_name=self.name),
            new_identifier=self.new_identifier,
        )
        Deferred.fromCoroutine(self.service.open())
        self.service.startService()
        host.server_endpoint(1801).listen(factory)

    def crash(self) -> None:
        """Lose power, and start again."""
        self.world.network.crash(self.address)
        self.start()

    def restart(self) -> None:
        """Stop in an orderly way, and start again."""
        stopped: list[object] = []
        self.store.trouble = None
        stopping = self.service.stopService()
        stopping.addCallback(stopped.append)
        while not stopped:
            self.world.clock.advance(0.01)
        self.crash()

    def receive(self, queue: str, count: int) -> None:
        """Let an application receive what is there, without waiting for it."""
        Deferred.fromCoroutine(self._receive(queue, count)).addErrback(_refused)

    async def _receive(self, queue: str, count: int) -> None:
        reservation = await self.service.reserve(queue, count=count, timeout=0)
        receipt = Receipt({message.lookup_id: message.view for message in reservation.messages})
        self.receipts[queue].append(receipt)
        receipt.is_confirmed = await _confirm(reservation)

    def purge(self, queue: str) -> None:
        """Let an administrator purge a queue, without waiting for it."""
        Deferred.fromCoroutine(self.service.purge_queue(queue)).addErrback(_refused)

    @property
    def waiting(self) -> int:
        """How many messages have not left, or wait for their FinalAcks."""
        awaiting = self.service.model.collection.awaiting.message_count
        return awaiting + sum(int(queue.messages) for queue in self.service.inspection.outgoing())


async def _confirm(reservation: Reservation) -> bool:
    try:
        await reservation.confirm()
    except MQError:
        return False
    return True


def _refused(failure: Failure) -> None:
    failure.trap(MQError)


class World:
    """Some queue managers, and what was sent.

    @param hosts: how many queue managers, 2 or 3.
    @param delay: seconds that everything is under way.
    @param chunk: bytes in which a stream arrives at most.
    """

    def __init__(self, hosts: int, delay: float, chunk: int | None) -> None:
        self.clock = ManualClock()
        self._delay = delay
        self._chunk = chunk
        self.network = Network(self.clock.reactor, conditions=Conditions(delay=delay, largest_chunk=chunk))
        self.hosts = [
            Host(self, name, address, guid)
            for name, address, guid in (
                ("ALPHA", "127.0.0.2", ALPHA),
                ("BETA", "127.0.0.3", BETA),
                ("GAMMA", "127.0.0.4", GAMMA),
            )[:hosts]
        ]
        self.batches: list[Batch] = []
        self.was_full = False
        self._numbers = 1
        for host in self.hosts:
            for queue, is_transactional in ((PAYMENTS, True), (LETTERS, False), (ADMIN, False)):
                self.wait(host.service.create_queue(queue, transactional=is_transactional))

    def wait(self, coroutine: Coroutine[Deferred[Any], Any, Any]) -> Any:
        """The result of something, after as much time as it takes."""
        results: list[Any] = []
        Deferred.fromCoroutine(coroutine).addBoth(results.append)
        for _ in range(1000):
            if results:
                break
            self.clock.advance(0.01)
        [result] = results
        if isinstance(result, Failure):
            result.raiseException()
        return result

    def pair(self, number: int) -> tuple[Host, Host]:
        """One direction between two hosts."""
        count = len(self.hosts)
        sender = number % count
        return self.hosts[sender], self.hosts[(sender + 1 + number // count % (count - 1)) % count]

    def send(self, way: int, queue: str, count: int, reach: int, received: int) -> None:
        """Send messages to another host, without waiting for anything."""
        sender, receiver = self.pair(way)
        batch = Batch(sender, receiver, queue, self._numbers, count, reach, received)
        self._numbers += count
        self.batches.append(batch)
        admin = parse_format_name(f"DIRECT=TCP:{sender.address}\\{ADMIN[2:]}")
        messages = [
            Message(
                body=b"%06d" % number,
                application_tag=number,
                transactional=batch.is_transactional,
                delivery=Delivery.RECOVERABLE,
                journal=is_journaled(number),
                dead_letter=is_mourned(number),
                acknowledge=wish(number),
                admin_queue=admin if wish(number) else None,
                time_to_reach_queue=reach,
                time_to_be_received=received,
            )
            for number in batch.numbers
        ]

        def confirmed(identifiers: Sequence[MessageIdentifier]) -> None:
            batch.is_confirmed = True
            batch.first_id = identifiers[0].ordinal

        def failed(failure: Failure) -> None:
            failure.trap(MQError)
            batch.is_confirmed = False

        destination = f"DIRECT=TCP:{receiver.address}\\{queue[2:]}"
        Deferred.fromCoroutine(sender.service.send(destination, messages)).addCallbacks(confirmed, failed)

    def strand(self, way: int, queue: str, count: int) -> None:
        """Send messages over an open session on which nothing arrives before they have expired."""
        self.send(way, queue, 1, INFINITE, INFINITE)
        self.clock.advance(2)
        ends = self._addresses(way)
        self.network.partition(*ends)
        self.send(way, queue, count, 2, INFINITE)
        self.clock.advance(5)
        self.network.heal(*ends)

    def step(self, step: Step) -> None:
        """Do one thing."""
        count = len(self.hosts)
        match step:
            case ("send", way, queue, number, reach, received):
                self.send(way, DESTINATIONS[queue], number, reach, received)
            case ("strand", way, queue, number):
                self.strand(way, DESTINATIONS[queue], number)
            case ("receive", host, queue, number):
                self.hosts[host % count].receive(QUEUES[queue], number)
            case ("purge", host, queue):
                self.hosts[host % count].purge(QUEUES[queue])
            case ("wait", seconds):
                self.clock.advance(seconds)
            case ("cut", way):
                self.network.cut(*self._addresses(way))
            case ("partition", way, seconds):
                ends = self._addresses(way)
                self.network.partition(*ends)
                self.clock.advance(seconds)
                self.network.heal(*ends)
            case ("delay", way, seconds):
                slow = Conditions(delay=seconds, largest_chunk=self._chunk)
                self.network.set_conditions(*self._addresses(way), slow)
            case ("crash", host):
                self.hosts[host % count].crash()
            case ("restart", host):
                self.hosts[host % count].restart()
            case ("full" | "broken" as kind, host, seconds):
                self.was_full |= kind == "full"
                store = self.hosts[host % count].store
                store.trouble = TROUBLE[kind]
                self.clock.advance(seconds)
                store.trouble = None
            case _:
                raise ValueError(f"{step}: no such step")

    def _addresses(self, way: int) -> tuple[str, str]:
        one, other = self.pair(way)
        return one.address, other.address

    def drain(self, host: Host, queue: str) -> Iterator[UserMessageView]:
        """Receive all that is there."""
        while host.service.inspection.queue(queue).messages:
            reservation = self.wait(host.service.reserve(queue, count=100, timeout=1))
            if queue in host.receipts:
                views = {message.lookup_id: message.view for message in reservation.messages}
                host.receipts[queue].append(Receipt(views, True))
            self.wait(reservation.confirm())
            yield from (message.view for message in reservation.messages)

    def events(self, host: Host) -> Counter[tuple[bytes, str, int]]:
        """The removals in the event log of a host: which message, how, and by which class."""
        found: list[StoredEvent] = []
        host.disk.read_events(0, 1_000_000).addCallback(found.extend)
        events = (each.event for each in found)
        return Counter((event.identity, event.event, event.message_class) for event in events)
