"""The table C{[archive]} of a configuration."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import attrs

from msmq.interfaces.archived_streams import ARCHIVED_STREAMS


@attrs.frozen(kw_only=True)
class ArchiveSettings:
    """The settings of an archive."""

    directory: Path | None = None
    """The directory of the archive, absolute; C{None} for no archive."""

    streams: tuple[str, ...] = ARCHIVED_STREAMS
    """What is archived, as the data source names it."""

    queues: tuple[str, ...] = ("*",)
    """The queues whose logs and journals are archived: paths, with C{*} for any characters."""

    keep_days: int = 0
    """Rows of older dates are removed; 0 keeps all."""

    interval: float = 5.0
    """Seconds between two passes."""

    late: float = 300.0
    """Seconds of lag from which the archive is late."""


def store_location(storage: str, data: Path) -> str | None:
    """Where another process reads the store of this description; C{None} if it cannot.

    @param data: the data directory.
    """
    name, _, argument = storage.partition(":")
    match name:
        case "log":
            return str(data / argument) if argument else str(data)
        case "sqlite":
            return str(data / (argument or "msmq.sqlite"))
        case "postgresql":
            return storage
    return None


def problem_of(settings: ArchiveSettings, storage: str, data: Path) -> str | None:
    """Why an archive cannot be kept with this store, in words that finish "the value ..."."""
    if settings.directory is None:
        return None
    if find_spec("pyarrow") is None:
        return "needs the package pyarrow: pip install 'msmq[parquet]'"
    if store_location(storage, data) is None:
        name = storage.partition(":")[0]
        return f"needs a store that another process can read: log, sqlite or postgresql, not {name}"
    if settings.directory == data:
        return f"is the data directory; select another one, such as {data / 'archive'}"
    return None
