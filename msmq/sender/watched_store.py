"""Store of a sender: commits show which messages have left their outgoing queues, and why.

A recoverable message is removed when the session has acknowledged it ([MS-MQQB] 3.1.5.5.2), a transactional
one when its OrderAck has come (3.1.5.6), or is moved then, to wait for its FinalAck. A message that is
removed for another reason has an event in the same commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred
from zope.interface import implementer

from msmq.interfaces.storage import IMessageStore
from msmq.persistence.changes import AppendEvent, Change, MoveMessage, PutMessage, RemoveMessages, RemoveQueue
from msmq.sender.deliveries import Deliveries
from msmq.storage.identity import identity_of


@implementer(IMessageStore)
class WatchedStore:
    """Delegates to a store, and reports the messages that committed changes remove.

    It does not take runs of messages, so each change names its messages.
    """

    def __init__(self, store: IMessageStore, deliveries: Deliveries) -> None:
        self._store = store
        self._deliveries = deliveries
        self._waiting: dict[tuple[UUID, int], bytes] = {}
        self.name = store.name
        self.durable = store.durable

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        """See L{IMessageStore.commit}."""
        return self._store.commit(changes).addCallback(self._committed, changes)

    def _committed(self, result: None, changes: Sequence[Change]) -> None:
        events: dict[bytes, AppendEvent] = {}
        gone: list[bytes] = []
        for change in changes:
            match change:
                case PutMessage():
                    self._waiting[change.queue, change.lookup_id] = identity_of(change.packet)
                case RemoveMessages():
                    for lookup_id in change.lookup_ids:
                        gone += self._take(change.queue, lookup_id)
                case MoveMessage():
                    gone += self._take(change.queue, change.lookup_id)
                case RemoveQueue(queue):
                    for identity in [
                        self._waiting.pop(key) for key in [key for key in self._waiting if key[0] == queue]
                    ]:
                        self._deliveries.failed(identity, "queue removed", "")
                case AppendEvent():
                    events[change.identity] = change
        for identity in gone:
            event = events.pop(identity, None)
            if event is None:
                self._deliveries.delivered(identity)
            else:
                self._deliveries.failed(identity, event.event, event.reason)
        # An express message is in no store.
        for identity, event in events.items():
            if identity:
                self._deliveries.failed(identity, event.event, event.reason)

    def _take(self, queue: UUID, lookup_id: int) -> list[bytes]:
        identity = self._waiting.pop((queue, lookup_id), None)
        return [] if identity is None else [identity]
