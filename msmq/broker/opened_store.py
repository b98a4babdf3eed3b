"""A store that was opened before its queue manager exists, since it knows the queue manager's identifier."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID, uuid4

from twisted.internet.defer import Deferred, succeed
from zope.interface import directlyProvides, providedBy

from msmq.interfaces.storage import IMessageStore
from msmq.persistence.owner_mark import OWNER
from msmq.persistence.snapshot import Snapshot

_GUID_SIZE: Final = 16


class OpenedStore:
    """Passes everything to a store that is open; its own L{open} returns the contents that were found."""

    def __init__(self, store: IMessageStore, snapshot: Snapshot) -> None:
        self._store = store
        self._snapshot = snapshot
        directlyProvides(self, providedBy(store))

    def open(self) -> Deferred[Snapshot]:
        """See L{IMessageStore.open}."""
        return succeed(self._snapshot)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def owner_of(snapshot: Snapshot) -> UUID:
    """The identifier of the queue manager whose store this is; a new one for a new store."""
    owner = snapshot.state.get(OWNER, b"")
    return UUID(bytes=owner) if len(owner) == _GUID_SIZE else uuid4()
