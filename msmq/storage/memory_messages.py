"""The messages of one queue in the store in memory, by LookupIdentifier and by identity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from msmq.queues.changes import PutMessage
from msmq.queues.snapshot import StoredMessage
from msmq.storage.identity import identity_of


@attrs.define(eq=False)
class QueueMessages(Mapping[int, PutMessage]):
    """The messages of one queue, in no order."""

    _messages: dict[int, PutMessage] = attrs.field(factory=dict)
    # Of one identity there is one message as a rule, and a copy or two at most.
    _by_identity: dict[bytes, tuple[int, ...]] = attrs.field(factory=dict)

    def __getitem__(self, lookup_id: int) -> PutMessage:
        return self._messages[lookup_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, lookup_id: int, message: PutMessage) -> None:
        """Keep a message, in place of what was there."""
        if lookup_id in self._messages:
            self.pop(lookup_id)
        self._messages[lookup_id] = message
        identity = identity_of(message.packet)
        others = self._by_identity.get(identity)
        self._by_identity[identity] = (lookup_id,) if others is None else (*others, lookup_id)

    def put_aborts(self, lookup_id: int, aborts: int) -> None:
        """Change the AbortCount of a message, if it is kept."""
        if (message := self._messages.get(lookup_id)) is not None:
            self._messages[lookup_id] = attrs.evolve(message, aborts=aborts)

    def pop(self, lookup_id: int) -> PutMessage | None:
        """Forget a message, and give it; C{None} if it is not kept."""
        message = self._messages.pop(lookup_id, None)
        if message is not None:
            identity = identity_of(message.packet)
            found = self._by_identity.pop(identity)
            if len(found) > 1:
                self._by_identity[identity] = tuple(other for other in found if other != lookup_id)
        return message

    def remove(self, lookup_ids: Iterable[int]) -> None:
        """Forget these messages; what is not kept is no error."""
        for lookup_id in lookup_ids:
            self.pop(lookup_id)

    def find(self, identity: bytes) -> Sequence[int]:
        """The LookupIdentifiers of the messages that have this identity."""
        return self._by_identity.get(identity, ())

    def index(self) -> list[StoredMessage]:
        """What a start finds of them."""
        return [
            (lookup_id, len(message.packet), message.arrived, message.due, message.aborts, message.moves)
            for lookup_id, message in sorted(self._messages.items())
        ]
