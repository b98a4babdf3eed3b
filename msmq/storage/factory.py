"""Factory of message stores: creates a store from its description in the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
from zope.interface import implementer

from msmq.errors import MsmqError
from msmq.interfaces.plugins import ILossAcceptance, IStorageFactory, IStorageProbe
from msmq.interfaces.standby import IElection, IStandbyStorage, StandbyReport
from msmq.interfaces.storage import IMessageStore
from msmq.plugins import PluginError, check_product, plugins, select_plugin
from msmq.quoting import quoted
from msmq.storage.log import LogStorageFactory
from msmq.storage.memory import MemoryMessageStore
from msmq.storage.postgresql import PostgresqlStorageFactory
from msmq.storage.sqlite import SqliteStorageFactory


class StorageDescriptionError(MsmqError):
    """A description names no known store, or has an invalid argument."""


@implementer(IStorageFactory)
@attrs.frozen
class MemoryStorageFactory:
    """Factory of C{memory}, a store without durability."""

    name: str = "memory"
    description: str = "in memory; express messages only, and nothing survives a restart"

    def open_store(self, argument: str, data: Path) -> IMessageStore:
        """See L{IStorageFactory.open_store}."""
        if argument:
            raise ValueError(f"memory takes no argument, and {quoted(argument)} is given")
        return MemoryMessageStore()


BUILT_IN: tuple[IStorageFactory, ...] = (
    MemoryStorageFactory(),
    SqliteStorageFactory(),
    LogStorageFactory(),
    PostgresqlStorageFactory(),
)
"""The built-in stores; a plugin cannot use their names."""


def storage_factories() -> Iterator[IStorageFactory]:
    """List the built-in stores, then those of plugins."""
    yield from BUILT_IN
    yield from plugins(IStorageFactory)


def make_store(description: str, data: Path, *, accepts_loss: bool = False) -> IMessageStore:
    """Create, without opening it, the store that C{NAME} or C{NAME:ARGUMENT} describes.

    @param data: the data directory.
    @param accepts_loss: whether it opens although it is not the one last used.
    @raise StorageDescriptionError: the name is unknown, or the argument invalid.
    """
    factory, argument = _factory(description)
    try:
        acceptance = ILossAcceptance(factory, None) if accepts_loss else None
        if acceptance is not None:
            store = acceptance.open_with_loss(argument, data)
        else:
            store = factory.open_store(argument, data)
        if factory not in BUILT_IN:
            check_product(IMessageStore, store, plugin=factory.name)
        return store
    except (ValueError, PluginError) as error:
        raise _unsuitable(description, error) from error


def probe_store(description: str, data: Path) -> None:
    """Check whether the described store can be opened, if its factory has a probe.

    @param data: the data directory.
    @raise StorageDescriptionError: it cannot be opened.
    """
    factory, argument = _factory(description)
    probe = IStorageProbe(factory, None)
    if probe is None:
        return
    try:
        probe.probe(argument, data)
    except ValueError as error:
        raise _unsuitable(description, error) from error


def make_election(description: str, lease: float, report: Callable[[StandbyReport], object]) -> IElection:
    """Create the election of the active server among those that share the described store.

    @param lease: as of L{IStandbyStorage.make_election}; so is C{report}.
    @raise StorageDescriptionError: several servers cannot share it.
    """
    _, argument = _factory(description)
    try:
        return check_sharing(description).make_election(argument, lease, report)
    except ValueError as error:
        raise _unsuitable(description, error) from error


def check_sharing(description: str) -> IStandbyStorage:
    """Check that several servers can share the described store, one at a time.

    @raise ValueError: they cannot; the text is the reason.
    """
    name, _, _ = description.partition(":")
    shared = IStandbyStorage(_factory(description)[0], None)
    if shared is None:
        raise ValueError(
            f"a standby needs a store that several servers can reach, such as postgresql; {name} is not"
        )
    return shared


def shown(description: str) -> str:
    """Format a description for display; a URL is omitted, since it may contain a password."""
    name, _, argument = description.partition(":")
    return f"{name}://..." if "//" in argument or "@" in argument else description


def _factory(description: str) -> tuple[IStorageFactory, str]:
    name, _, argument = description.partition(":")
    try:
        return select_plugin(name, IStorageFactory, BUILT_IN, kind="store"), argument
    except PluginError as error:
        raise _unsuitable(description, error) from error


def _unsuitable(description: str, error: Exception) -> StorageDescriptionError:
    return StorageDescriptionError(f"storage {quoted(shown(description))}: {error}")
