"""Outcomes of changes, in words, on the page that a browser is redirected to.

The address of that page has the name of an outcome and numbers, never a text, so that a link cannot make the
console say something.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

import attrs

from msmq.control.protocol.refusals import invalid
from msmq.control.server.messages.properties import number
from msmq.quantities import count
from msmq.quoting import quoted

_TEXTS: Final[Mapping[str, str]] = {
    "created": "The queue is created.",
    "set": "The properties are set.",
    "unchanged": "Nothing is changed: every property has this value already.",
    "deleted": "The queue is deleted.",
    "deletion-pending": "The queue is deleted; the store fails, and is retried until it has removed it.",
    "paused": "It is paused.",
    "resumed": "It is resumed.",
    "retried": "A connection is attempted now.",
    "redirected": "The messages are redirected.",
    "not-redirected": "The redirection has ended.",
    "aborted": "The transaction is aborted.",
    "closed": "The session is closed.",
    "reloaded": "The configuration is reloaded.",
}

_COUNTED: Final[Mapping[str, str]] = {
    "purged": "purged",
    "removed": "removed",
    "moved": "moved",
    "copied": "copied",
    "requeued": "sent again",
    "replayed": "sent from the log",
}

_KEYS: Final = ("done", "count", "gone")


@attrs.frozen
class ChangeOutcome:
    """What a change has done.

    @ivar name: a key of the table of texts.
    @ivar count: the number of messages that were changed; C{None} if the change is not about messages.
    @ivar gone: selected messages that were received or removed before the change.
    """

    name: str
    count: int | None = None
    gone: int = 0

    def address(self, page: str, **query: str) -> str:
        """The address of the page that shows the outcome; a query parameter without a value is left out."""
        values: dict[str, str] = {name: value for name, value in query.items() if value}
        values["done"] = self.name
        if self.count is not None:
            values |= {"count": str(self.count), "gone": str(self.gone)}
        return f"{page}?{urlencode(values)}"

    @property
    def text(self) -> str:
        """The outcome in words."""
        if self.count is None:
            return _TEXTS[self.name]
        was = "1 message was" if self.count == 1 else f"{count(self.count)} messages were"
        text = f"{was} {_COUNTED[self.name]}."
        if self.gone:
            text += f" {count(self.gone)} selected were received or removed before that."
        return text


def take_outcome(found: dict[str, str]) -> ChangeOutcome | None:
    """Remove the outcome from the query parameters of a page; C{None} if there is none.

    @raise MQError: there is no such outcome.
    """
    name, total, gone = (found.pop(key, None) for key in _KEYS)
    if name is None:
        return None
    if name in _COUNTED and total is not None:
        return ChangeOutcome(name, number("count", total), number("gone", gone or "0"))
    if name in _TEXTS and total is None and gone is None:
        return ChangeOutcome(name)
    raise invalid(f"done: {quoted(name)} is not an outcome")
