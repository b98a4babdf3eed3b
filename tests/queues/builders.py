"""A queue manager with queues and messages, for tests of the queue model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import uuid5

from msmq.moment import Moment
from msmq.persistence.definition import UNLIMITED
from msmq.queues.arriving.admission import Admission
from msmq.queues.arriving.message import Delivery, Message
from msmq.queues.arriving.packet_builder import build_packet
from msmq.queues.effects import Effect, ReadCompleted
from msmq.queues.leaving.departure_kinds import Departure, DepartureCommit
from msmq.queues.model import DEFAULT_QUEUE_MANAGER_QUOTA, QueueManagerModel
from msmq.queues.queue import MessagePosition, Queue
from msmq.queues.queue_names import one_of
from msmq.structures.names.format_name import FormatName, PrivateFormatName, parse_format_name
from msmq.structures.names.path_name import parse_path_name
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import ALPHA, BETA

ORDERS = PrivateFormatName(ALPHA, 16)
"""The first queue of ALPHA's."""

NOW = Moment(monotonic=1000.0, wall=1_700_000_000.5)


def model(*, quota: int = DEFAULT_QUEUE_MANAGER_QUOTA, now: Moment = NOW) -> QueueManagerModel:
    """ALPHA at 127.0.0.2, without queues."""
    return QueueManagerModel(
        ALPHA,
        computer_names=["ALPHA", "alpha.example.com"],
        is_own_address=one_of(["127.0.0.2", "::1"]),
        quota=quota,
        now=now,
    )


def create(alpha: QueueManagerModel, name: str = "orders", *, quota: int = UNLIMITED) -> Queue:
    """A private queue that is there."""
    path = parse_path_name(f".\\private$\\{name}")
    creation = alpha.create_queue(path, identifier=uuid5(ALPHA, name), now=NOW, quota=quota)
    alpha.created(creation)
    return creation.queue


def delete(alpha: QueueManagerModel, queue: Queue) -> None:
    """Delete a queue, store and all."""
    alpha.deleted(alpha.delete_queue(queue))


def arriving(
    body: bytes = b"",
    *,
    priority: int = 3,
    recoverable: bool = False,
    transactional: bool = False,
    destination: FormatName | str = ORDERS,
    time_to_reach_queue: int = 0xFFFFFFFF,
    time_to_be_received: int = 0xFFFFFFFF,
    sent_time: int = NOW.unix_seconds,
) -> UserMessageView:
    """A message as it comes from BETA."""
    if isinstance(destination, str):
        destination = parse_format_name(destination)
    message = Message(
        body=body,
        priority=priority,
        delivery=Delivery.RECOVERABLE if recoverable else Delivery.EXPRESS,
        transactional=transactional,
        time_to_reach_queue=time_to_reach_queue,
        time_to_be_received=time_to_be_received,
    )
    packet = build_packet(message, destination, source=BETA, message_id=1, sent_time=sent_time)
    return UserMessageView(packet)


def put(
    alpha: QueueManagerModel, queue: Queue, *arrivals: UserMessageView | bytes, now: Moment = NOW
) -> list[Effect]:
    """Let messages come in, store and all."""
    return alpha.commit(admit(alpha, queue, *arrivals, now=now), now)


def admit(
    alpha: QueueManagerModel, queue: Queue, *arrivals: UserMessageView | bytes, now: Moment = NOW
) -> Admission:
    """Let messages come in and wait for the store."""
    views = [arriving(arrival) if isinstance(arrival, bytes) else arrival for arrival in arrivals]
    return alpha.admit([(queue, view) for view in views], now)


def receive(
    alpha: QueueManagerModel, queue: Queue, *, count: int = 1, tag: object = "reader"
) -> list[MessagePosition]:
    """Lock what is there, without waiting."""
    [effect] = alpha.receive(queue, tag=tag, now=NOW, count=count, deadline=NOW.monotonic)
    return list(effect.positions) if isinstance(effect, ReadCompleted) else []


def peek(alpha: QueueManagerModel, queue: Queue, *, count: int = 1000) -> list[bytes]:
    """The bodies that are there, without waiting."""
    [effect] = alpha.receive(queue, tag="peeker", now=NOW, peek=True, count=count, deadline=NOW.monotonic)
    return bodies(effect.positions) if isinstance(effect, ReadCompleted) else []


def take_out(
    alpha: QueueManagerModel, positions: Iterable[MessagePosition], now: Moment = NOW
) -> list[Effect]:
    """Let messages that a reader has leave, store and all."""
    return alpha.removed(alpha.remove(positions), now)


def leave(alpha: QueueManagerModel, departure: Departure, now: Moment = NOW) -> DepartureCommit:
    """Let messages leave unread, store and all; answers with what was stored."""
    settlement = alpha.settle(departure, now)
    alpha.settled(settlement, now)
    return settlement


def bodies(positions: Iterable[MessagePosition]) -> list[bytes]:
    """The bodies of the messages."""
    return [bytes(position.view.body) for position in positions if position.view is not None]


def completions(effects: Sequence[Effect]) -> list[tuple[object, list[bytes]]]:
    """Which reader got which messages, in order."""
    return [(effect.tag, bodies(effect.positions)) for effect in effects if isinstance(effect, ReadCompleted)]
