"""Contents of a store when it is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias
from uuid import UUID

import attrs

from msmq.persistence.definition import QueueDefinition

StoredMessage: TypeAlias = tuple[int, int, float, int | None, int, int]
"""LookupIdentifier, size of the packet in bytes, and of L{msmq.persistence.changes.PutMessage} C{arrived},
C{due}, C{aborts} and C{moves}: plain, since there may be millions."""


@attrs.frozen
class Snapshot:
    """The queues, an index of their messages and the state; packets stay in the store until they are read.

    @ivar messages: by queue identifier, in ascending order of LookupIdentifier, without what was put as
        express; a queue without messages may be missing.
    @ivar state: the values of L{msmq.persistence.changes.PutState} by their names.
    """

    queues: Sequence[QueueDefinition] = ()
    messages: Mapping[UUID, Sequence[StoredMessage]] = attrs.field(factory=dict, repr=False)
    state: Mapping[str, bytes] = attrs.field(factory=dict)
