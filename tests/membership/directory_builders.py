"""A queue manager with a directory that answers what a test says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from uuid import UUID

import attrs

from msmq.membership.access import DirectoryAccess
from msmq.membership.attributes import DirectoryObject
from msmq.membership.divergence import DirectoryChanges
from msmq.membership.entry import DirectoryEntry
from msmq.membership.enumerations import DirectoryOperationResult
from msmq.membership.local import LocalQueueManager
from msmq.membership.objects import QueueManagerObject, QueueObject
from msmq.membership.requests import (
    Answer,
    AskDirectory,
    DirectoryEffect,
    DirectoryRequest,
    Outcome,
    Procedure,
)
from msmq.moment import Moment

R = TypeVar("R")

NOW = Moment(monotonic=50.0, wall=1_700_000_000.0)
OWN = UUID(int=0xA1)
QUEUE = UUID(int=0xB1)
SITE = UUID(int=0xC1)
ENTERPRISE = UUID(int=0xE1)
DISCONNECTED = Outcome(DirectoryOperationResult.DIRECTORY_NOT_CONNECTED, detail="cut")
NOT_FOUND = Outcome(DirectoryOperationResult.OBJECT_NOT_FOUND, detail="nowhere")
EXISTS = Outcome(DirectoryOperationResult.OBJECT_ALREADY_EXISTS, detail="there it is")
FAILED = Outcome(DirectoryOperationResult.GENERIC_ERROR, detail="broken")
END = Outcome(DirectoryOperationResult.END_OF_DATA)
DONE = Outcome()

ALPHA = QueueManagerObject(identifier=OWN, computer_name="ALPHA", qualified_computer_name="alpha.example.com")
ORDERS = QueueObject(identifier=QUEUE, pathname="ALPHA\\orders", label="orders")


def access(
    *queues: QueueObject, integrated: bool = True, offline: bool = False, own: QueueManagerObject = ALPHA
) -> DirectoryAccess:
    """A queue manager C{ALPHA} that has these public queues."""
    local = LocalQueueManager(own, directory_integrated=integrated)
    local.directory_offline = offline
    local.public_queues = {queue.identifier: queue for queue in queues}
    return DirectoryAccess(local, DirectoryChanges.FOLLOW)


def found(held: DirectoryObject, attributes: Iterable[str] | None = None) -> Outcome:
    """A read finds this object, or these attributes of it."""
    entry = DirectoryEntry.holding(held)
    return Outcome(value=entry.only(None if attributes is None else tuple(attributes)))


@attrs.define
class Played:
    """Record of a procedure.

    @ivar effects: its effects, in order.
    """

    effects: list[DirectoryEffect] = attrs.field(factory=list)

    @property
    def requests(self) -> list[DirectoryRequest]:
        """The directory requests, in order."""
        return [effect.request for effect in self.effects if isinstance(effect, AskDirectory)]

    def of(self, kind: type[Any]) -> list[Any]:
        """The effects of one kind."""
        return [effect for effect in self.effects if isinstance(effect, kind)]


def play(
    procedure: Procedure[R],
    reply: Callable[[DirectoryEffect], Outcome] = lambda effect: DONE,
    *,
    now: Moment = NOW,
    played: Played | None = None,
) -> tuple[R, Played]:
    """Run a procedure, each of whose effects is answered by C{reply}; an exception of that is thrown
    into it.
    """
    played = played or Played()
    try:
        effect = next(procedure)
        while True:
            played.effects.append(effect)
            try:
                outcome = reply(effect)
            except Exception as error:
                effect = procedure.throw(error)
            else:
                effect = procedure.send(Answer(now, outcome))
    except StopIteration as stop:
        result: R = stop.value
        return result, played


def replies(*outcomes: Outcome) -> Callable[[DirectoryEffect], Outcome]:
    """The directory's requests are answered so, in this order; all else succeeds."""
    left = list(outcomes)

    def reply(effect: DirectoryEffect) -> Outcome:
        return left.pop(0) if isinstance(effect, AskDirectory) else DONE

    return reply
