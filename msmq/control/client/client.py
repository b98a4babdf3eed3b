"""Blocking client of the control API for programs without a reactor, such as the command.

It is longer than other files, since each request of the API is a method of one class.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import attrs

from msmq.control.client.requests import ControlRequests
from msmq.control.client.send_stream import ClientSendStream
from msmq.control.client.streams import Delivered, Receipt, ReceiveStream
from msmq.control.client.targets import (
    certificate_target,
    drain_target,
    queue_target,
    segment,
    shadow_target,
    with_query,
)
from msmq.control.protocol.records import WITH_RUNS, StreamRecord

__all__ = ["ControlClient", "Delivered", "Receipt", "ReceiveStream"]

_OUTSTANDING: Final = 1000


class ControlClient(ControlRequests):
    """Client of the control API of one server."""

    def status(self) -> dict[str, Any]:
        """The identity and the state of the queue manager."""
        return self.one("GET", "/v1/status")

    def keep_identity(self) -> dict[str, Any]:
        """Decide that a queue manager that may be a clone is the original; returns its status."""
        return self.one("POST", "/v1/identity/keep")

    def quotas(self) -> dict[str, Any]:
        """The quotas of all queues together, and their use."""
        return self.one("GET", "/v1/quotas")

    def set_quotas(self, changes: Mapping[str, object]) -> dict[str, Any]:
        """Set C{quota}, C{journal_quota} or both: kilobytes, C{None} for no limit, or C{configuration}."""
        return self.one("PATCH", "/v1/quotas", _json(changes))

    def configuration(self) -> dict[str, Any]:
        """The configuration of the server: C{files}, C{entries}, and what a C{reload} would do now."""
        return self.one("GET", "/v1/configuration")

    def reload(self) -> dict[str, Any]:
        """Have the server read its configuration again: C{changed}, C{restart} and C{read}.

        @raise MQError: the configuration cannot be used; nothing has changed.
        """
        return self.one("POST", "/v1/reload")

    def route(self, source: str, destination: str, down: Sequence[str] = ()) -> dict[str, Any]:
        """The route of a message between two queue managers, by name or GUID.

        @param down: queue managers that are down.
        """
        named = {"down": ",".join(down)} if down else {}
        return self.one(
            "GET", with_query("/v1/route", {"source": source, "destination": destination, **named})
        )

    def topology(self) -> dict[str, Any]:
        """The sites, routing links and queue managers of the enterprise, as routing sees them."""
        return self.one("GET", "/v1/topology")

    def control_servers(self) -> list[dict[str, Any]]:
        """The members whose control endpoint is known: C{name}, C{endpoint}, C{source}."""
        return self.several("/v1/control_servers")

    def control_server(self, name: str) -> dict[str, Any]:
        """One member; its C{endpoint} is C{None} if it is the queue manager of this server."""
        return self.one("GET", f"/v1/control_servers/{segment(name, 'the member')}")

    def queues(self, *, system: bool = False) -> list[dict[str, Any]]:
        """All queues; system queues only with C{system}."""
        return self.several("/v1/queues?system=true" if system else "/v1/queues")

    def public_queues(
        self, *, label: str | None = None, kind: str | None = None, path: str | None = None
    ) -> list[dict[str, Any]]:
        """The public queues of the enterprise that match; C{kind} is the GUID that is their type."""
        given = {"label": label, "type": kind, "path": path}
        return self.several(with_query("/v1/public_queues", given))

    def queue(self, path: str) -> dict[str, Any]:
        """One queue."""
        return self.one("GET", queue_target(path))

    def create_queue(self, path: str, options: Mapping[str, object]) -> dict[str, Any]:
        """Create a queue; the options are those of L{msmq.interfaces.manager.queue_manager.IQueueManager}."""
        return self.one("POST", "/v1/queues", _json({"path": path, **options}))

    def set_queue(self, path: str, properties: Mapping[str, object]) -> dict[str, Any]:
        """Change properties of a queue; a quota of C{None} removes the limit."""
        return self.one("PATCH", queue_target(path), _json(properties))

    def pause_queue(self, path: str) -> dict[str, Any]:
        """Let the receives from a queue wait as if it were empty, until it is resumed."""
        return self.one("POST", f"{queue_target(path)}/pause")

    def resume_queue(self, path: str) -> dict[str, Any]:
        """Let the receives from a paused queue go on."""
        return self.one("POST", f"{queue_target(path)}/resume")

    def purge_queue(self, path: str, progress: Callable[[int], None] | None = None) -> dict[str, Any]:
        """Remove all messages in a queue; C{purged} says how many.

        The purge continues if the caller disconnects; a second call waits for the rest.

        @param progress: called each second with the number of remaining messages.
        """
        return self._purge(f"{queue_target(path)}/purge", progress)

    def purge_outgoing(self, name: str, progress: Callable[[int], None] | None = None) -> dict[str, Any]:
        """Remove all messages from an outgoing queue; as L{purge_queue}."""
        return self._purge(f"/v1/outgoing/{segment(name, 'the outgoing queue')}/purge", progress)

    def _purge(self, target: str, progress: Callable[[int], None] | None) -> dict[str, Any]:
        if progress is None:
            return self.one("POST", target)
        target = f"{target}?progress=true"
        for value in self.lines("POST", target, "the purge was interrupted", last="purged"):
            if "purged" in value:
                return value
            progress(value["messages"])
        raise self.lost("the answer ended early")

    def replay(
        self,
        path: str,
        into: str,
        *,
        begin: int | str | None = None,
        end: int | str | None = None,
        in_clear: bool = False,
    ) -> dict[str, Any]:
        """Send copies of the messages in the message log of a queue; C{replayed} is their number.

        @param into: a destination, as of L{send}.
        @param in_clear: send all of them unencrypted, even if their senders requested encryption.
        @param begin: the first message, and C{end} the last: a sequence number, or a time of arrival in ISO
            8601.
        """
        wanted: dict[str, object] = {"into": into, "from": begin, "to": end}
        if in_clear:
            wanted["in_clear"] = True
        return self.one("POST", f"{queue_target(path)}/replay", _json(wanted))

    def delete_queue(self, path: str, *, if_empty: bool = False) -> dict[str, Any]:
        """Delete a queue and its messages; with C{if_empty} only a queue without messages."""
        return self.one("DELETE", queue_target(path) + ("?if_empty=true" if if_empty else ""))

    def acl(self, path: str) -> dict[str, Any]:
        """The access control of one queue, or of the queue manager, which is named C{.}."""
        return self.one("GET", f"{queue_target(path)}/acl")

    def change_acl(
        self, path: str, action: str, principal: str, rights: Sequence[str] = ()
    ) -> dict[str, Any]:
        """C{allow} or C{deny} a right to a principal, or C{revoke} all its entries."""
        wanted = {"action": action, "principal": principal, "rights": list(rights)}
        return self.one("POST", f"{queue_target(path)}/acl", _json(wanted))

    def replace_acl(self, path: str, sddl: str, *, dry_run: bool = False) -> dict[str, Any]:
        """Replace the owner and the list of a queue, as far as C{sddl} has them; or only say what they
        would be.
        """
        wanted: dict[str, object] = {"action": "replace", "sddl": sddl, "dry_run": dry_run}
        return self.one("POST", f"{queue_target(path)}/acl", _json(wanted))

    def acl_as_sddl(self, entries: Sequence[Mapping[str, object]]) -> str:
        """The SDDL of an access list with these entries: C{action}, C{principal} and C{rights} of each."""
        found = self.one("POST", "/v1/acl", _json({"entries": list(entries)}))
        return str(found["sddl"])

    def why(self, path: str, principal: str, right: str) -> dict[str, Any]:
        """Whether a principal has a right to a queue, and the entry that decides it."""
        asked = {"principal": principal, "right": right}
        return self.one("GET", with_query(f"{queue_target(path)}/why", asked))

    def outgoing(self) -> list[dict[str, Any]]:
        """All outgoing queues."""
        return self.several("/v1/outgoing")

    def outgoing_queue(self, name: str) -> dict[str, Any]:
        """One outgoing queue, by its format name."""
        return self.one("GET", f"/v1/outgoing/{segment(name, 'the outgoing queue')}")

    def pause_outgoing(self, name: str) -> dict[str, Any]:
        """Stop sending from an outgoing queue until it is resumed."""
        return self.one("POST", f"/v1/outgoing/{segment(name, 'the outgoing queue')}/pause")

    def resume_outgoing(self, name: str) -> dict[str, Any]:
        """Resume sending from a paused outgoing queue."""
        return self.one("POST", f"/v1/outgoing/{segment(name, 'the outgoing queue')}/resume")

    def retry_outgoing(self, name: str) -> dict[str, Any]:
        """Connect to the next hop of a waiting outgoing queue now, instead of at the next attempt."""
        return self.one("POST", f"/v1/outgoing/{segment(name, 'the outgoing queue')}/retry")

    def retry_all_outgoing(self) -> list[dict[str, Any]]:
        """Connect to the next hops of all waiting outgoing queues now, and return those queues."""
        return self.several("/v1/outgoing/retry", "POST")

    def redirect_outgoing(self, name: str, to: str | None) -> dict[str, Any]:
        """Redirect a direct format name to another address; C{None} ends the redirection."""
        target = f"/v1/outgoing/{segment(name, 'the outgoing queue')}/redirect"
        return self.one("POST", target, _json({"to": to}))

    def hold_outgoing(self, action: str, next_hop: str | None = None) -> list[dict[str, Any]]:
        """C{pause} or C{resume} sending to one next hop, or to all; returns the queues concerned.

        @param next_hop: an address, the name of a computer, or the GUID of a queue manager; C{None} for all.
        """
        wanted: dict[str, object] = {"all": True} if next_hop is None else {"next_hop": next_hop}
        return self.several(f"/v1/outgoing/{action}", "POST", _json(wanted))

    def certificates(self) -> list[dict[str, Any]]:
        """All certificates that messages can be signed with."""
        return self.several("/v1/certificates")

    def certificate(self, fingerprint: str = "") -> dict[str, Any]:
        """One certificate; by default the one that is used for signing."""
        return self.one("GET", certificate_target(fingerprint))

    def add_certificate(self, properties: dict[str, Any]) -> dict[str, Any]:
        """Generate a certificate (C{sid}, C{name}, C{days}, C{renew}), or import one from a file
        (C{file_base64}).
        """
        return self.one("POST", "/v1/certificates", _json(properties))

    def publish_certificate(self, fingerprint: str = "") -> dict[str, Any]:
        """Register a certificate with its user in the directory."""
        return self.one("POST", f"{certificate_target(fingerprint)}/publish")

    def delete_certificate(self, fingerprint: str) -> dict[str, Any]:
        """Delete a certificate and its key."""
        return self.one("DELETE", f"/v1/certificates/{segment(fingerprint, 'the certificate')}")

    def transactions(self) -> list[dict[str, Any]]:
        """All open transactions."""
        return self.several("/v1/transactions")

    def transaction(self, identifier: str) -> dict[str, Any]:
        """One transaction, with its sends and receives in C{messages}."""
        return self.one("GET", f"/v1/transactions/{segment(identifier, 'the transaction')}")

    def abort_transaction(self, identifier: str) -> dict[str, Any]:
        """Abort a transaction of any application."""
        return self.one("POST", f"/v1/transactions/{segment(identifier, 'the transaction')}/abort")

    def archive(self) -> dict[str, Any]:
        """The state of the archive of the server."""
        return self.one("GET", "/v1/archive")

    def erase_archived(self, where: str, *, dry_run: bool = False) -> list[dict[str, Any]]:
        """Erase the archived rows that fulfil a condition: their number by topic and stream."""
        request = _json({"where": where, "dry_run": dry_run})
        return list(self.one("POST", "/v1/archive/erase", request)["rows"])

    def compact_archive(self) -> dict[str, Any]:
        """Write all archived rows as Parquet, and return the state of the archive then."""
        return self.one("POST", "/v1/archive/compact")

    def bridges(self) -> list[dict[str, Any]]:
        """The routes to other brokers."""
        return self.several("/v1/bridges")

    def bridge(self, name: str) -> dict[str, Any]:
        """One route."""
        return self.one("GET", _bridge(name))

    def pause_bridge(self, name: str) -> dict[str, Any]:
        """Pause a route until it is resumed, or the server restarts."""
        return self.one("POST", f"{_bridge(name)}/pause")

    def resume_bridge(self, name: str) -> dict[str, Any]:
        """Resume a route."""
        return self.one("POST", f"{_bridge(name)}/resume")

    def test_bridge(self, name: str, count: int = 10) -> list[dict[str, Any]]:
        """What a route would send of its first messages."""
        return self.several(f"{_bridge(name)}/test?count={count}", "POST")

    def drains(self) -> list[dict[str, Any]]:
        """All drains."""
        return self.several("/v1/drains")

    def drain(self, queue: str) -> dict[str, Any]:
        """The drain of one queue."""
        return self.one("GET", drain_target(queue))

    def begin_drain(
        self, queue: str, destination: str, *, in_clear: bool = False, acknowledge_to: str | None = None
    ) -> dict[str, Any]:
        """Move the messages of a queue to another queue manager, until L{end_drain}.

        The parameters are those of L{IDrains.begin<msmq.interfaces.drains.IDrains.begin>}.
        """
        document: dict[str, Any] = {"destination": destination, "in_clear": in_clear}
        if acknowledge_to is not None:
            document["acknowledge_to"] = acknowledge_to
        return self.one("POST", drain_target(queue), _json(document))

    def end_drain(self, queue: str) -> dict[str, Any]:
        """End a drain, and return its final figures."""
        return self.one("DELETE", drain_target(queue))

    def drain_identifiers(self, queue: str, after: int = 0, count: int = 1000) -> list[str]:
        """The identifiers that moved messages have at the destination."""
        found = self.one("GET", f"{drain_target(queue)}/identifiers?after={after}&count={count}")
        return list(found["identifiers"])

    def logged(
        self, queue: str, after: int = 0, count: int = 1000, *, digests: bool = False
    ) -> list[dict[str, Any]]:
        """A part of the message log of a queue, behind the C{sequence} C{after}.

        @param digests: with C{digest} and C{body_digest}, to compare messages.
        """
        wanted = f"after={after}&count={count}&digests={str(digests).lower()}"
        return self.several(f"{queue_target(queue)}/logged?{wanted}")

    def store_value(self, call: str, arguments: Mapping[str, object]) -> Any:
        """The answer to a call about the store: L{msmq.interfaces.stored_rows.STORE_CALLS}."""
        return self.one("POST", "/v1/store", _json({"call": call, **arguments}))["value"]

    def store_rows(self, call: str, arguments: Mapping[str, object]) -> bytes:
        """The rows of one page of the store, as a stream of Arrow IPC."""
        return self.octets("POST", "/v1/store", _json({"call": call, **arguments}))

    def shadows(self) -> list[dict[str, Any]]:
        """All shadows."""
        return self.several("/v1/shadows")

    def shadow(self, queue: str) -> dict[str, Any]:
        """The shadow of one queue."""
        return self.one("GET", shadow_target(queue))

    def shadow_copies(self, queue: str, after: int = 0, count: int = 1000) -> list[dict[str, Any]]:
        """Messages and their copies: C{sequence}, C{original} and C{copy}."""
        return list(self.one("GET", f"{shadow_target(queue)}/copies?after={after}&count={count}")["copies"])

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
        return self.lines("POST", target, "the change was interrupted", _json(given))

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
        return self.one("POST", target, _json({"queue": queue}))

    def dead_letters(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The messages in both dead-letter queues, the first C{limit} of each."""
        return self.several("/v1/deadletters" if limit is None else f"/v1/deadletters?limit={limit}")

    def requeue(self, message: str) -> dict[str, Any]:
        """Send a dead letter again, and remove it; C{id} is that of the new message."""
        return self.one("POST", f"/v1/deadletters/{segment(message, 'the message')}/requeue")

    def alarms(self, limit: int | None = None) -> dict[str, Any]:
        """What needs an operator's attention: C{alarms}, the worst first, and C{further}, how many alarms
        about queues are not among them.

        @param limit: the most alarms about queues, at most 1000; by default 100.
        """
        return self.one("GET", "/v1/alarms" if limit is None else f"/v1/alarms?limit={limit}")

    def sessions(self) -> list[dict[str, Any]]:
        """All sessions."""
        return self.several("/v1/sessions")

    def close_session(self, identifier: UUID | str) -> dict[str, Any]:
        """End a session, by its C{identifier}, and return its last state.

        @raise MQError: MQ_ERROR_INVALID_HANDLE it has ended, or there was none.
        """
        return self.one("POST", f"/v1/sessions/{segment(str(identifier), 'the session')}/close")

    def send(
        self,
        messages: Iterable[StreamRecord],
        *,
        one_transaction: bool = False,
        pipelined: bool = False,
        outstanding: int = _OUTSTANDING,
        is_import: bool = False,
        stop_at_refusal: bool | None = None,
    ) -> Iterator[str]:
        """Send messages over one connection, and yield the identifier of each accepted message.

        They are sent in batches, each of which is accepted as a whole or not at all.
        After a refusal no later message is sent, unless C{stop_at_refusal} says so.

        @param messages: the header of each holds its properties, C{destination} among them, and
            C{extension_size} if its body ends with an extension; the iterator is advanced as far as
            C{outstanding} allows.
        @param one_transaction: send all of them or none; they are transactional, and the identifiers come
            after the commit.
        @param pipelined: wait neither for a slow producer nor for results before the next messages are sent,
            so that many share one commit.
        @param stop_at_refusal: whether the server sends no message after a refused one; otherwise later ones
            may have been sent without an identifier here, and more of them share one commit. C{None} for yes,
            except for pipelined messages that are not transactional.
        @param outstanding: limit on sent messages without a result; not applied in a transaction.
        @param is_import: have the server log their number and the caller.
        @raise MQError: a message is refused, or the transaction is not committed.
        @raise Exception: C{messages} raised it; a transaction is aborted, and messages before may be sent.
        """
        if stop_at_refusal is None and not pipelined and not one_transaction:
            stop_at_refusal = True
        chosen = {"import": is_import or None, "stop_at_refusal": stop_at_refusal}
        target = with_query(
            "/v1/send", {name: str(is_on).lower() for name, is_on in chosen.items() if is_on is not None}
        )
        sent = _marked(messages) if one_transaction else messages
        with contextlib.closing(self.open()) as connection:
            response = self.upgrade(connection, target)
            has_runs = response.getheader("Upgrade") == WITH_RUNS
            # Not in C{losing}: what the producer raises is not a lost connection.
            yield from ClientSendStream(
                self,
                connection.sock,
                sent,
                outstanding,
                has_runs,
                pipelined=pipelined,
                one_transaction=one_transaction,
            )

    def receive(
        self,
        queue: str,
        *,
        count: int = 1,
        timeout: float | None = None,
        peek: bool = False,
        transactional: bool = False,
    ) -> ReceiveStream:
        """Receive or peek at messages; waits for the first.

        @param timeout: the longest wait for the next message in seconds; C{None} for no limit.
        @param transactional: receive all in one transaction; the one receipt follows the last message.
        @raise MQError: C{MQ_ERROR_IO_TIMEOUT} if no message arrived in time.
        """
        segment(queue, "the queue")
        parameters = {"queue": queue, "count": str(count)}
        if timeout is not None:
            parameters["timeout"] = repr(timeout)
        if peek:
            parameters["peek"] = "true"
        if transactional:
            parameters["transactional"] = "true"
        target = with_query("/v1/receive", parameters)
        connection = self.open()
        try:
            return ReceiveStream(self, connection, target)
        except BaseException:
            connection.close()
            raise


def _bridge(name: str) -> str:
    return f"/v1/bridges/{segment(name, 'the route')}"


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(dict(value)).encode("ascii")


def _marked(messages: Iterable[StreamRecord]) -> Iterator[StreamRecord]:
    """The messages, the first of them with C{one_transaction} in its header."""
    for number, record in enumerate(messages):
        yield record if number else attrs.evolve(record, header={**record.header, "one_transaction": True})
