"""Blocking client of the control API for programs without a reactor, such as the command."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import attrs

from msmq.control.client.message_requests import MessageRequests
from msmq.control.client.queue_requests import QueueRequests
from msmq.control.client.requests import json_body
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


class ControlClient(QueueRequests, MessageRequests):
    """Client of the control API of one server."""

    def status(self) -> dict[str, Any]:
        """The identity and the state of the queue manager."""
        return self.one("GET", "/v1/status")

    def keep_identity(self) -> dict[str, Any]:
        """Decide that a queue manager that may be a clone is the original; returns its status."""
        return self.one("POST", "/v1/identity/keep")

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

    def purge_outgoing(self, name: str, progress: Callable[[int], None] | None = None) -> dict[str, Any]:
        """Remove all messages from an outgoing queue; as L{purge_queue}."""
        return self.purge(f"/v1/outgoing/{segment(name, 'the outgoing queue')}/purge", progress)

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
        return self.one("POST", target, json_body({"to": to}))

    def hold_outgoing(self, action: str, next_hop: str | None = None) -> list[dict[str, Any]]:
        """C{pause} or C{resume} sending to one next hop, or to all; returns the queues concerned.

        @param next_hop: an address, the name of a computer, or the GUID of a queue manager; C{None} for all.
        """
        wanted: dict[str, object] = {"all": True} if next_hop is None else {"next_hop": next_hop}
        return self.several(f"/v1/outgoing/{action}", "POST", json_body(wanted))

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
        return self.one("POST", "/v1/certificates", json_body(properties))

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
        request = json_body({"where": where, "dry_run": dry_run})
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
        return self.one("POST", drain_target(queue), json_body(document))

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
        return self.one("POST", "/v1/store", json_body({"call": call, **arguments}))["value"]

    def store_rows(self, call: str, arguments: Mapping[str, object]) -> bytes:
        """The rows of one page of the store, as a stream of Arrow IPC."""
        return self.octets("POST", "/v1/store", json_body({"call": call, **arguments}))

    def shadows(self) -> list[dict[str, Any]]:
        """All shadows."""
        return self.several("/v1/shadows")

    def shadow(self, queue: str) -> dict[str, Any]:
        """The shadow of one queue."""
        return self.one("GET", shadow_target(queue))

    def shadow_copies(self, queue: str, after: int = 0, count: int = 1000) -> list[dict[str, Any]]:
        """Messages and their copies: C{sequence}, C{original} and C{copy}."""
        return list(self.one("GET", f"{shadow_target(queue)}/copies?after={after}&count={count}")["copies"])

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


def _marked(messages: Iterable[StreamRecord]) -> Iterator[StreamRecord]:
    """The messages, the first of them with C{one_transaction} in its header."""
    for number, record in enumerate(messages):
        yield record if number else attrs.evolve(record, header={**record.header, "one_transaction": True})
