"""Messages of one queue in the memory store, by LookupIdentifier and by identity."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import attrs

from msmq.persistence.changes import PutMessage
from msmq.persistence.snapshot import StoredMessage
from msmq.storage.identity import identity_of


@attrs.define(eq=False)
class QueueMessages(Mapping[int, PutMessage]):
    """Messages of one queue, unordered."""

    _messages: dict[int, PutMessage] = attrs.field(factory=dict)
    # As a rule there is one message of each identity, but a peer may send any number.
    _by_identity: dict[bytes, int | set[int]] = attrs.field(factory=dict)

    def __getitem__(self, lookup_id: int) -> PutMessage:
        return self._messages[lookup_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, lookup_id: int, message: PutMessage) -> None:
        """Store a message, replacing one with its key."""
        if lookup_id in self._messages:
            self.pop(lookup_id)
        self._messages[lookup_id] = message
        if identity := identity_of(message.packet):
            found = self._by_identity.setdefault(identity, lookup_id)
            if isinstance(found, set):
                found.add(lookup_id)
            elif found != lookup_id:
                self._by_identity[identity] = {found, lookup_id}

    def put_aborts(self, lookup_id: int, aborts: int) -> None:
        """Change the AbortCount of a message, if it exists."""
        if (message := self._messages.get(lookup_id)) is not None:
            self._messages[lookup_id] = attrs.evolve(message, aborts=aborts)

    def pop(self, lookup_id: int) -> PutMessage | None:
        """Remove and return a message; C{None} if it is missing."""
        message = self._messages.pop(lookup_id, None)
        if message is not None and (identity := identity_of(message.packet)):
            found = self._by_identity[identity]
            if isinstance(found, set):
                found.discard(lookup_id)
            if not isinstance(found, set) or not found:
                del self._by_identity[identity]
        return message

    def remove(self, lookup_ids: Iterable[int]) -> None:
        """Remove these messages; a missing message is not an error."""
        for lookup_id in lookup_ids:
            self.pop(lookup_id)

    def find(self, identity: bytes) -> Collection[int]:
        """The LookupIdentifiers of the messages that have this identity."""
        found = self._by_identity.get(identity, ())
        return (found,) if isinstance(found, int) else found

    def index(self) -> list[StoredMessage]:
        """Index of the messages for a start."""
        return [
            (lookup_id, len(message.packet), message.arrived, message.due, message.aborts, message.moves)
            for lookup_id, message in sorted(self._messages.items())
        ]
