"""Requests of the control API about messages and their events: searches, changes, dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msmq.control.client.requests import ControlRequests, json_body
from msmq.control.client.targets import queue_target, segment, with_query


class MessageRequests(ControlRequests):
    """The part of the client about single messages."""

    def explain(self, message: str) -> dict[str, Any]:
        """Everything known about a message: C{message}, C{events}, C{places}."""
        return self.one("GET", f"/v1/messages/{segment(message, 'the message')}")

    def browse(
        self,
        path: str,
        *,
        after: int | None = None,
        limit: int = 100,
        where: str | None = None,
        body: str | None = None,
        bodies: bool = True,
        decode: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """Browse the messages of a queue from any position, without locks.

        The last object has C{end}: C{queue} if there are no more messages, C{limit} if there may be;
        C{after}, where to go on, and C{looked_at} and C{found}. A search that takes long gives objects with
        C{looked_at} alone in between, and one with C{unreadable} for a message that the store cannot read.

        @param after: the LookupIdentifier after which to begin; by default the front of the queue.
        @param limit: the most messages.
        @param where: a JMESPath expression over the keys of a message.
        @param body: a text that the body has to contain.
        @param bodies: whether to return the bodies.
        @param decode: whether to return the decoded bodies.
        @raise MQError: no such queue, the expression is invalid, or the queue is deleted meanwhile.
        """
        asked: dict[str, object] = {"limit": limit, "bodies": str(bodies).lower()}
        asked |= {"after": after, "where": where, "body": body, "decode": "true" if decode else None}
        target = with_query(f"{queue_target(path)}/messages", asked)
        return self.lines("GET", target, "the search was interrupted")

    def change_messages(
        self,
        path: str,
        action: str,
        *,
        lookup_ids: Sequence[int] | None = None,
        where: str | None = None,
        body: str | None = None,
        everything: bool = False,
        dry_run: bool = False,
        **options: object,
    ) -> Iterator[dict[str, Any]]:
        """C{remove}, C{move}, C{copy} or C{requeue} messages of a queue, selected by identifier or by a
        filter.

        The result has an object for each message, with C{lookup_id} and C{id}, C{new_id} of a sent copy, and
        C{error} and C{detail} if it was refused; objects with C{done} alone report progress. The last has
        C{end}, C{done} and C{failed}. Closing the iterator stops the work; finished changes are not undone.

        @param everything: all messages of the queue, if neither identifiers nor a filter are given.
        @param dry_run: change nothing, and return the selected messages.
        @param options: C{queue} of move, C{destination}, C{in_clear} and C{message} of copy, C{to} and
            C{message} of requeue, C{limit} and C{after}.
        @raise MQError: the request is refused; the text reports the changes made before.
        """
        wanted: dict[str, object] = {"lookup_ids": lookup_ids, "where": where, "body": body, **options}
        wanted |= {"all": everything or None, "dry_run": dry_run or None}
        given = {name: value for name, value in wanted.items() if value is not None}
        target = f"{queue_target(path)}/messages/{action}"
        return self.lines("POST", target, "the change was interrupted", json_body(given))

    def dead_letter_groups(self, by: Sequence[str], where: str | None = None) -> Iterator[dict[str, Any]]:
        """Count the dead letters by some of their properties; the last object has C{end}.

        @param by: C{class}, C{queue}, C{reason}, C{label}, C{source}.
        @param where: as of L{browse}.
        """
        asked = {"by": ",".join(by)} | ({} if where is None else {"where": where})
        target = with_query("/v1/deadletters/groups", asked)
        return self.lines("GET", target, "the search was interrupted")

    def events(
        self,
        *,
        after: int | None = None,
        tail: int | None = None,
        follow: bool = False,
        where: str | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Read entries of the event log, the oldest first; the last object has C{end}.

        @param after: only those with larger C{sequence}.
        @param tail: only about this number of newest entries.
        @param follow: continue with new entries, without end.
        @param where: a JMESPath expression over the keys of an entry.
        """
        asked = {"after": after, "tail": tail, "follow": "true" if follow else None, "where": where}
        return self.lines("GET", with_query("/v1/events", asked), "the event stream was interrupted")

    def message(
        self, path: str, lookup_id: int, *, decode: bool = False, raw: bool = False
    ) -> dict[str, Any]:
        """One message of a queue by its LookupIdentifier, with its body.

        @param decode: whether to return the decoded body.
        @param raw: whether to return the body as C{body_base64}, even if it is text.
        """
        asked = {name: "true" for name, is_on in (("decode", decode), ("raw", raw)) if is_on}
        return self.one("GET", with_query(f"{queue_target(path)}/messages/{lookup_id}", asked))

    def move(self, message: str, queue: str) -> dict[str, Any]:
        """Move a message between a queue and its subqueues, or into a system queue."""
        target = f"/v1/messages/{segment(message, 'the message')}/move"
        return self.one("POST", target, json_body({"queue": queue}))

    def dead_letters(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The messages in both dead-letter queues, the first C{limit} of each."""
        return self.several("/v1/deadletters" if limit is None else f"/v1/deadletters?limit={limit}")

    def requeue(self, message: str) -> dict[str, Any]:
        """Send a dead letter again, and remove it; C{id} is that of the new message."""
        return self.one("POST", f"/v1/deadletters/{segment(message, 'the message')}/requeue")
