"""ServiceValues: values of services of the same server, in the store of the queue manager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zope.interface import implementer

from msmq.background import undivided
from msmq.interfaces.manager.service_values import IServiceValues, ValuesOfMessages
from msmq.manager.performer import Performer
from msmq.manager.states import as_changes
from msmq.persistence.changes import Change
from msmq.persistence.service_value import PREFIX
from msmq.persistence.state_records import StateChange
from msmq.structures.identifiers import MessageIdentifier


@implementer(IServiceValues)
class ServiceValues:
    """See L{IServiceValues}."""

    def __init__(self, performer: Performer) -> None:
        self._performer = performer
        self._values: dict[str, bytes] = {}

    def load(self, state: Mapping[str, bytes]) -> None:
        """Take the values that are stored."""
        self._values = {
            name.removeprefix(PREFIX): value for name, value in state.items() if name.startswith(PREFIX)
        }

    def read(self, prefix: str) -> Mapping[str, bytes]:
        """See L{IServiceValues}."""
        return {name: value for name, value in self._values.items() if name.startswith(prefix)}

    async def store(self, changes: Sequence[StateChange]) -> None:
        """See L{IServiceValues}."""
        await undivided(self._store(tuple(changes)))

    async def _store(self, changes: Sequence[StateChange]) -> None:
        await self._performer.commit(_stored_as(changes))
        self.stored(changes)

    def with_messages(self, values: ValuesOfMessages) -> SentValues:
        """Changes for the commit of messages; see L{IMessaging.send
        <msmq.interfaces.manager.queue_manager.IMessaging.send>}.
        """
        return SentValues(values, self)

    def stored(self, changes: Sequence[StateChange]) -> None:
        """Changes were stored with messages."""
        for name, value in changes:
            if value is None:
                self._values.pop(name, None)
            else:
                self._values[name] = value


class SentValues:
    """Changes of values that are stored in the commit of messages.

    @param values: computes them.
    @param owner: of the values.
    """

    def __init__(self, values: ValuesOfMessages, owner: ServiceValues) -> None:
        self._values = values
        self._owner = owner
        self._changes: Sequence[StateChange] = ()

    def changes(self, identifiers: Sequence[MessageIdentifier]) -> list[Change]:
        """The changes to store with messages; call L{stored} afterwards.

        @param identifiers: those of the messages.
        """
        self._changes = tuple(self._values(identifiers))
        return _stored_as(self._changes)

    def stored(self) -> None:
        """The commit is stored."""
        self._owner.stored(self._changes)

    async def store(self, identifiers: Sequence[MessageIdentifier]) -> None:
        """Store the changes without messages: all were sent before.

        @raise MQError: as L{IServiceValues.store}.
        """
        await self._owner.store(self._values(identifiers))


def _stored_as(changes: Sequence[StateChange]) -> list[Change]:
    return as_changes((f"{PREFIX}{name}", value) for name, value in changes)
