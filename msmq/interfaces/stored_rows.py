"""IStoredRows: the rows of the store of a server, for readers on other machines."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Final

import attrs
from zope.interface import Interface, implementer

from msmq.structures.status import MQError, Status

UUID_ARGUMENT: Final = "guid"
UUIDS_ARGUMENT: Final = "guids"
NUMBER_ARGUMENT: Final = "number"
COUNT_ARGUMENT: Final = "count"
LIMIT_ARGUMENT: Final = "limit"
TIME_ARGUMENT: Final = "time"
FLAG_ARGUMENT: Final = "flag"
OPTIONAL: Final = "?"
"""The end of the kind of an argument that may be null."""

_RANGE: Final = {"queue": UUID_ARGUMENT, "begin": NUMBER_ARGUMENT, "end": NUMBER_ARGUMENT}
_PAGE: Final = {
    **_RANGE,
    "since": TIME_ARGUMENT + OPTIONAL,
    "until": TIME_ARGUMENT + OPTIONAL,
    "bodies": FLAG_ARGUMENT,
}

STORE_CALLS: Final[Mapping[str, Mapping[str, str]]] = {
    "identifier": {},
    "queues": {},
    "messages": _PAGE,
    "message_rows": {"queue": UUID_ARGUMENT, "begin": NUMBER_ARGUMENT},
    "log": _PAGE,
    "events": {"begin": NUMBER_ARGUMENT, "end": NUMBER_ARGUMENT},
    "message_cuts": {**_RANGE, "rows": COUNT_ARGUMENT},
    "log_cuts": {**_RANGE, "rows": COUNT_ARGUMENT},
    "log_bounds": {"queue": UUID_ARGUMENT},
    "event_bounds": {},
    "log_end": {},
    "log_since": {"queue": UUID_ARGUMENT, "time": TIME_ARGUMENT},
    "event_since": {"time": TIME_ARGUMENT},
    "log_after": {
        "queues": UUIDS_ARGUMENT,
        "begin": NUMBER_ARGUMENT,
        "rows": LIMIT_ARGUMENT + OPTIONAL,
        "size": LIMIT_ARGUMENT + OPTIONAL,
    },
}
"""The calls of a reader of a store that have an answer, each with the kinds of its arguments."""


@attrs.frozen
class StoredRowsAnswer:
    """The answer to a call.

    @ivar value: a value for JSON; C{None} if there are rows.
    @ivar rows: a stream of Arrow IPC with the rows of one page; C{None} for a value.
    """

    value: Any = None
    rows: bytes | None = attrs.field(default=None, repr=False)


class IStoredRows(Interface):
    """Reads the store of a server without delaying it."""

    def ask(call: str, arguments: Mapping[str, Any]) -> Awaitable[StoredRowsAnswer]:
        """Answer a call of L{STORE_CALLS}, whose arguments have been checked.

        @raise MQError: the store cannot be read, a row of the page is damaged, or too many calls wait.
        """


@implementer(IStoredRows)
class NoStoredRows:
    """That of a queue manager whose store is not offered."""

    async def ask(self, call: str, arguments: Mapping[str, Any]) -> StoredRowsAnswer:
        """See L{IStoredRows.ask}."""
        raise MQError(
            Status.MQ_ERROR_UNSUPPORTED_OPERATION, "the store of this queue manager cannot be read remotely"
        )
