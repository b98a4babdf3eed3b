"""Opens a store where its location says that it is: in files, in a database, or behind a control endpoint."""

from __future__ import annotations

import re

from msmq.interfaces.storage import StorageError
from msmq.storage.readers import StoreReader, open_reader

REMOTE = ("ssl:", "tls:", "tcp:", "unix:")
"""The beginnings of locations of control endpoints."""


def is_remote(location: str) -> bool:
    """Whether a location is a control endpoint rather than a path or a database."""
    return location.startswith(REMOTE)


def open_store(location: str) -> StoreReader:
    """Open the store at a path, a URL of PostgreSQL, or behind a control endpoint.

    @raise StorageError: there is no store, or it cannot be read.
    """
    if not is_remote(location):
        return open_reader(location)
    # Readers of local stores start often, and need no client.
    from msmq.control.client.client import ControlClient
    from msmq.control.client.locations import LocationError, parse_location
    from msmq.pipeline.reading import remote

    try:
        where = parse_location(location)
    except LocationError as error:
        raise StorageError(str(error)) from None
    # A task that waits for a server that hangs would wait for ever.
    client = ControlClient(where, patience=remote.PATIENCE)
    return remote.RemoteStoreReader(client, shown_location(location))


def shown_location(location: str) -> str:
    """A control endpoint for people, without the files that belong to it."""
    return ":".join(parts_of(location)[:3]) if not location.startswith("unix:") else location


def parts_of(location: str) -> list[str]:
    """The parts of a control endpoint; a colon after a backslash, as in an IPv6 address, ends none."""
    return re.split(r"(?<!\\):", location)
