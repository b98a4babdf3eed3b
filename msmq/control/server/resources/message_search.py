"""Searches pages of a queue for messages that match, and describes them in JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from twisted.plugin import getPlugins

from msmq.control.server.http.evaluation_shares import EvaluationShare
from msmq.control.server.http.responses import to_json
from msmq.control.server.messages.queued_messages_json import properties_of
from msmq.control.server.resources.message_filter import MessageFilter
from msmq.decoding.bodies import Body, BodyDecoders, IBodyDecoder
from msmq.decoding.message_json import body_json
from msmq.interfaces.manager.received_messages import MessagePage, ReceivedMessage

PAGE: Final = 64
"""Messages in one page read from the store."""

TURN: Final = 0.005
"""Maximum time of one reactor iteration, in seconds."""

PROGRESS: Final = 1.0
"""Seconds without a match after which a search reports its progress."""

_DECODED: Final = 0x10000
"""Maximum size of a body, and of an extension, that are decoded, in bytes; larger ones block the reactor."""


def json_line(value: object) -> bytes:
    """A line of JSON."""
    return to_json(value) + b"\n"


def _unreadable_line(lookup_id: int, reason: str) -> bytes:
    return json_line({"lookup_id": lookup_id, "unreadable": reason})


class MessageDescriber:
    """Describes messages in JSON; body decoders are loaded on first use."""

    def __init__(self) -> None:
        self._decoders: BodyDecoders | None = None

    def describe(self, message: ReceivedMessage, *, with_body: bool, is_decoded: bool) -> dict[str, Any]:
        """A message in JSON, with its body and decoded body if requested."""
        view = message.view
        value = properties_of(message)
        if with_body:
            value |= body_json(value["class"], value["label"], view.body)
        if is_decoded:
            if self._decoders is None:
                self._decoders = BodyDecoders(getPlugins(IBodyDecoder))
            if len(view.body) > _DECODED:
                value |= {"decoded": None, "decode_error": f"a body of more than {_DECODED} bytes"}
            elif view.extension_size > _DECODED:
                value |= {"decoded": None, "decode_error": f"an extension of more than {_DECODED} bytes"}
            else:
                outcome = self._decoders.decode(Body(bytes(view.body), view.body_type, bytes(view.extension)))
                decoded = None if outcome.decoded is None else outcome.decoded.as_json()
                value |= {"decoded": decoded, "decode_error": outcome.error or None}
        return value


class MessageSearch:
    """Searches pages of a queue for messages that match.

    @param limit: the maximum number of matches; C{None} for no limit.
    @param share: counts slow comparisons; its user waits until it is ready before it goes through a page, and
        whenever it lets the reactor run.
    """

    def __init__(
        self,
        describer: MessageDescriber,
        wanted: MessageFilter,
        limit: int | None,
        *,
        with_body: bool,
        is_decoded: bool,
        share: EvaluationShare,
    ) -> None:
        self._share = share
        self._describer = describer
        self._filter = wanted
        self._limit = limit
        self._with_body = with_body
        self._is_decoded = is_decoded
        self._found = 0
        self._looked_at = 0
        self._after: int | None = None
        self._is_end = False

    def lines(self, page: MessagePage) -> Iterator[bytes]:
        """A line for each message that matches, and nothing for each that does not.

        Unreadable messages have a line before that of the message after them, in the same value, so that a
        reader that stops there and goes on after it misses none.
        """
        unreadable = sorted(page.unreadable.items(), reverse=True)
        for message in self.matching(page):
            before = b""
            while unreadable and unreadable[-1][0] < self.after:
                before += _unreadable_line(*unreadable.pop())
            yield before if message is None else before + json_line(self.described(message))
        # With the limit reached, those after the last match are in the next answer.
        while unreadable and unreadable[-1][0] <= self.after:
            yield _unreadable_line(*unreadable.pop())

    def matching(self, page: MessagePage) -> Iterator[ReceivedMessage | None]:
        """Each message that matches, and C{None} for each that does not, up to the limit."""
        for message in page.messages:
            if self._found == self._limit:
                return
            self._looked_at += 1
            self._after = message.lookup_id
            is_found = self._matches(message)
            self._found += is_found
            yield message if is_found else None
        if self._limit is None or self._found < self._limit:
            self._after = page.last
            self._is_end = page.is_end

    def _matches(self, message: ReceivedMessage) -> bool:
        wanted = self._filter
        if wanted.is_empty:
            return True
        began = self._share.now()
        if not wanted.has_text(message.view.body):
            return False
        value = self._describer.describe(
            message, with_body=wanted.wants_body, is_decoded=wanted.wants_decoded
        )
        is_found = wanted.matches(value)
        self._share.spent(began)
        return is_found

    def described(self, message: ReceivedMessage) -> dict[str, Any]:
        """A message in JSON."""
        return self._describer.describe(message, with_body=self._with_body, is_decoded=self._is_decoded)

    def is_over(self, page: MessagePage) -> bool:
        """Whether the queue is exhausted, or the limit reached."""
        return self._is_end or self._found == self._limit

    @property
    def after(self) -> int:
        """The LookupIdentifier of the last message that was looked at; -1 for none."""
        return -1 if self._after is None else self._after

    def progress(self) -> dict[str, Any]:
        """The progress of the search."""
        return {"looked_at": self._looked_at, "found": self._found, "after": self._after}

    def ended(self) -> dict[str, Any]:
        """The final position, and the reason for the end."""
        end = "queue" if self._is_end else "limit"
        return {"end": end, **self.progress(), **self._filter.failures()}
