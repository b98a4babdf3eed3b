"""ServiceValues: values of services of the same server, in the store of the queue manager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zope.interface import implementer

from msmq.interfaces.manager.service_values import IServiceValues
from msmq.manager.atomic_steps import undivided
from msmq.manager.performer import Performer
from msmq.manager.states import as_changes
from msmq.persistence.service_value import PREFIX
from msmq.persistence.state_records import StateChange


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
        await self._performer.commit(as_changes((f"{PREFIX}{name}", value) for name, value in changes))
        for name, value in changes:
            if value is None:
                self._values.pop(name, None)
            else:
                self._values[name] = value
