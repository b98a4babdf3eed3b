"""From the description of a store in a configuration to the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
from twisted.plugin import getPlugins
from zope.interface import implementer

from msmq.errors import MsmqError
from msmq.interfaces.plugins import IStorageFactory
from msmq.interfaces.storage import IMessageStore
from msmq.storage.memory import MemoryMessageStore
from msmq.storage.sqlite import SqliteStorageFactory


class StorageDescriptionError(MsmqError):
    """No store can be made from a description."""


@implementer(IStorageFactory)
@attrs.frozen
class MemoryStorageFactory:
    """C{memory}: nothing outlives the process."""

    name: str = "memory"
    description: str = "in memory; express messages only, and nothing survives a restart"

    def open_store(self, argument: str, data: Path) -> IMessageStore:
        """See L{IStorageFactory.open_store}."""
        if argument:
            raise ValueError(f"memory takes no argument, not {argument!r}")
        return MemoryMessageStore()


BUILT_IN: tuple[IStorageFactory, ...] = (MemoryStorageFactory(), SqliteStorageFactory())
"""Our own stores; no plugin can take one of their names."""


def storage_factories() -> Iterator[IStorageFactory]:
    """Our own stores, then those of plugins."""
    yield from BUILT_IN
    yield from getPlugins(IStorageFactory)


def make_store(description: str, data: Path) -> IMessageStore:
    """The store that C{NAME} or C{NAME:ARGUMENT} describes, which is not open yet.

    @param data: the data directory.
    @raise StorageDescriptionError: nothing has that name, or it does not like the argument.
    """
    name, _, argument = description.partition(":")
    known: list[str] = []
    for factory in storage_factories():
        if factory.name == name:
            try:
                return factory.open_store(argument, data)
            except ValueError as error:
                raise StorageDescriptionError(f"storage {description!r}: {error}") from error
        known.append(factory.name)
    raise StorageDescriptionError(
        f"storage {description!r}: there is no store {name!r}; there are: {', '.join(sorted(known))}"
    )
