"""Filters entries of the event log by their kind, queue, a text, and an expression."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, Final

from msmq.control.protocol.refusals import invalid
from msmq.control.server.http.evaluation_shares import EvaluationShare
from msmq.control.server.resources.message_filter import MessageFilter

_KEYS: Final = frozenset("sequence time event message reason class class_name queue".split())
_SEARCHED: Final = ("event", "queue", "message", "reason", "class_name")
_LONGEST: Final = 1_000


class EventFilter:
    """A filter of entries; each part that is empty matches every entry.

    @param share: counts slow comparisons with C{where}.
    @param where: a JMESPath expression over the keys of an entry.
    @param event: the kind of entries, as of the key C{event}.
    @param queue: a part of the name of their queue, without regard to case.
    @param text: a text in their kind, queue, message or reason, without regard to case.
    @raise MQError: MQ_ERROR_INVALID_PARAMETER for an expression as of L{MessageFilter}, or a text that is too
        long.
    """

    def __init__(self, share: EvaluationShare, where: str, event: str, queue: str, text: str) -> None:
        for name, value in (("event", event), ("queue", queue), ("text", text)):
            if len(value) > _LONGEST:
                raise invalid(f"{name} has {len(value)} characters, and may have {_LONGEST}")
        self._share = share
        self._where = MessageFilter(where or None, None, _KEYS, "an event")
        self._event = event
        self._queue = queue.casefold()
        self._text = text.casefold()
        self.is_empty = not (where or event or queue or text)

    @classmethod
    def taken(cls, found: MutableMapping[str, str], share: EvaluationShare, prefix: str = "") -> EventFilter:
        """Take the parameters C{event}, C{queue}, C{text} and C{where} of a query.

        @param share: that of the caller.
        @param prefix: before C{queue} and C{text}.
        """
        return cls(
            share,
            found.pop("where", ""),
            found.pop("event", ""),
            found.pop(f"{prefix}queue", ""),
            found.pop(f"{prefix}text", ""),
        )

    async def matches(self, entry: Mapping[str, Any]) -> bool:
        """Whether an entry matches, given as JSON; after slow comparisons this takes seconds."""
        if self._event and entry["event"] != self._event:
            return False
        if self._queue and self._queue not in (entry["queue"] or "").casefold():
            return False
        if self._text and not any(self._text in str(entry[key] or "").casefold() for key in _SEARCHED):
            return False
        if self._where.is_empty:
            return True
        await self._share.ready()
        began = self._share.now()
        is_found = self._where.matches(entry)
        self._share.spent(began)
        return is_found

    def failures(self) -> dict[str, Any]:
        """See L{MessageFilter.failures}."""
        return self._where.failures()
