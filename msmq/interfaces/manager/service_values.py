"""IServiceValues: what a service of the same server keeps in the store of its queue manager."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from zope.interface import Interface

from msmq.persistence.state_records import StateChange
from msmq.structures.identifiers import MessageIdentifier

ValuesOfMessages: TypeAlias = Callable[[Sequence[MessageIdentifier]], Sequence[StateChange]]
"""The changes of values that are stored in the commit of messages, by the identifiers of these."""


class IServiceValues(Interface):
    """Named values of services such as the bridge, which are where the messages are.

    A standby that takes the store over has them, and so has a backup.
    They are read into memory when the store opens, so a service bounds their number and size.
    """

    def read(prefix: str) -> Mapping[str, bytes]:
        """The values whose names begin with C{prefix}, by their names."""

    def store(changes: Sequence[StateChange]) -> Awaitable[None]:
        """Store and remove values, all or none; done when that is on stable storage.

        @raise MQError: MQ_ERROR_INSUFFICIENT_RESOURCES if the store has no space,
            MQ_ERROR_MESSAGE_STORAGE_FAILED for any other failure, and MQ_ERROR_SERVICE_NOT_AVAILABLE once the
            queue manager has stopped.
        """
