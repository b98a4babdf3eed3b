"""The control API: one tree of resources below C{/v1}; C{docs/control.md} describes it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.iweb import IRequest
from werkzeug.exceptions import HTTPException

from msmq.control.authentication.audit import AuditedOperation
from msmq.control.protocol.refusals import (
    MethodNotAllowed,
    http_status,
    internal_error,
    no_such_resource,
    refusal,
)
from msmq.control.server.access import read_acl_change
from msmq.control.server.browse_api import BrowseAPI
from msmq.control.server.certificates import (
    DEFAULT,
    read_fingerprint,
    read_import,
    read_new_certificate,
)
from msmq.control.server.channel import asks_for_records
from msmq.control.server.disconnection import running, shielded
from msmq.control.server.estate_members import EstateMembers
from msmq.control.server.identifiers import answer_with_identifiers
from msmq.control.server.json_records import json_record, json_records
from msmq.control.server.limits import ControlLimits
from msmq.control.server.messages import explanation_of, letter_of
from msmq.control.server.properties import flag, guid, number, read_key, read_message, seconds, text
from msmq.control.server.queue_properties import read_log_range, read_new_queue, read_properties
from msmq.control.server.receive_stream import ActiveReceives, ReceiveRequest
from msmq.control.server.requests import (
    ControlRequest,
    json_body,
    parameters,
    raw_body,
    record_body,
    refuse_rest,
    take,
    wants_json,
)
from msmq.control.server.responses import json_answer, json_list, json_progress, json_stream
from msmq.control.server.send_connection import SendConnection
from msmq.control.server.single_message import receive_one
from msmq.control.server.transfer_api import Reload, at_once
from msmq.interfaces.access_summaries import CertificateSummary
from msmq.interfaces.queue_manager import IQueueManager
from msmq.routing.topology_description import describe_route, describe_topology
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.status import MQError
from msmq.wire.guid import format_guid

_T = TypeVar("_T")

_DEAD_LETTERS: Final = 1000


class ControlAPI(BrowseAPI):
    """Answers the requests; every refusal is an object with C{error} and C{detail}."""

    _log = Logger()
    app = BrowseAPI.app

    def __init__(
        self,
        manager: IQueueManager,
        limits: ControlLimits,
        clock: IReactorTime,
        members: EstateMembers,
        reload: Reload,
    ) -> None:
        BrowseAPI.__init__(self, manager, limits, clock, members, reload)
        self._receiving = ActiveReceives(manager, limits, clock)

    @app.route("/v1/status", methods=["GET"])
    def status(self, request: ControlRequest) -> bytes:
        """What the queue manager is and how it does."""
        refuse_rest(parameters(request), "none")
        return json_answer(request, json_record(self._manager.inspection.status()))

    @app.route("/v1/route", methods=["GET"])
    async def route(self, request: ControlRequest) -> bytes:
        """The way of a message between two queue managers."""
        found = parameters(request)
        source = text("source", found.pop("source", None))
        destination = text("destination", found.pop("destination", None))
        down = [name for name in text("down", found.pop("down", "")).split(",") if name]
        refuse_rest(found, "source, destination and down")
        found_route = await running(self._manager.inspection.route(source, destination, down))
        return json_answer(request, describe_route(found_route.topology, found_route.route))

    @app.route("/v1/topology", methods=["GET"])
    async def topology(self, request: ControlRequest) -> bytes:
        """The enterprise, as routing knows it."""
        refuse_rest(parameters(request), "none")
        return json_answer(request, describe_topology(await running(self._manager.inspection.topology())))

    @app.route("/v1/queues", methods=["GET"])
    async def queues(self, request: ControlRequest) -> bytes | None:
        """Every queue; with C{system} those of the system too."""
        found = parameters(request)
        with_system = flag("system", found.pop("system", "false"))
        refuse_rest(found, "system")
        queues = list(self._manager.inspection.queues())
        if with_system:
            queues += self._manager.inspection.system_queues()
        return await json_list(request, json_records(queues), self._clock)

    @app.route("/v1/queues", methods=["POST"])
    async def create_queue(self, request: ControlRequest) -> bytes:
        """Make a queue of what the body says."""
        refuse_rest(parameters(request), "those in the request body")
        wanted = json_body(request, self._limits.document)
        path = text("path", wanted.pop("path", None))
        options = read_new_queue(wanted)
        queue = await self._change(
            request,
            AuditedOperation("queue create", path, options),
            lambda: self._manager.create_queue(path, **options),
        )
        return json_answer(request, json_record(queue), 201)

    @app.route("/v1/public_queues", methods=["GET"])
    async def public_queues(self, request: ControlRequest) -> bytes | None:
        """The public queues of the enterprise, by C{label}, C{type} and C{path}."""
        found = parameters(request)
        label, kind, path = (found.pop(name, None) for name in ("label", "type", "path"))
        refuse_rest(found, "label, type and path")
        queues = await running(
            self._manager.inspection.public_queues(
                label=label, application_type=None if kind is None else guid("type", kind), path=path
            )
        )
        return await json_list(request, json_records(queues), self._clock)

    @app.route("/v1/queues/<path:path>", methods=["GET"])
    async def queue(self, request: ControlRequest, path: str) -> bytes:
        """One queue, with the extent of its message log."""
        refuse_rest(parameters(request), "none")
        queue = json_record(self._manager.inspection.queue(path))
        extent = await running(self._manager.inspection.log_extent(path))
        queue["log_extent"] = {
            "first": extent.first,
            "last": extent.last,
            "entries": extent.entries,
            "bytes": extent.size,
        }
        return json_answer(request, queue)

    @app.route("/v1/queues/<path:path>", methods=["PATCH"])
    async def set_queue(self, request: ControlRequest, path: str) -> bytes:
        """Change what the body says of one queue."""
        refuse_rest(parameters(request), "those in the request body")
        properties = read_properties(json_body(request, self._limits.document))
        queue = await self._change(
            request,
            AuditedOperation("queue set", path, properties),
            lambda: self._manager.set_queue(path, properties),
        )
        return json_answer(request, json_record(queue))

    @app.route("/v1/queues/<path:path>/purge", methods=["POST"])
    async def purge_queue(self, request: ControlRequest, path: str) -> bytes | None:
        """Remove all messages in one queue; with C{progress} a line each second says how many are left."""
        found = parameters(request)
        with_progress = flag("progress", found.pop("progress", "false"))
        refuse_rest(found, "progress")
        purging = self._change(
            request, AuditedOperation("queue purge", path), lambda: self._manager.purge_queue(path)
        )
        if not with_progress:
            return json_answer(request, {"purged": await purging})

        def left() -> dict[str, Any]:
            return {"messages": self._manager.inspection.queue(path).messages}

        return await json_progress(request, purging, left, lambda count: {"purged": count}, self._clock)

    @app.route("/v1/queues/<path:path>/replay", methods=["POST"])
    async def replay(self, request: ControlRequest, path: str) -> bytes:
        """Send copies of what the message log of one queue holds."""
        refuse_rest(parameters(request), "those in the request body")
        wanted = json_body(request, self._limits.document)
        into = text("into", wanted.pop("into", None))
        part = read_log_range(wanted.pop("from", None), wanted.pop("to", None))
        options = {**attrs.asdict(part), "in_clear": flag("in_clear", wanted.pop("in_clear", False))}
        refuse_rest(wanted, "into, from, to and in_clear")
        count = await self._change(
            request,
            AuditedOperation("queue replay", path, {"into": into, **options}),
            lambda: self._manager.replay(path, into, **options),
        )
        return json_answer(request, {"replayed": count})

    @app.route("/v1/queues/<path:path>", methods=["DELETE"])
    async def delete_queue(self, request: ControlRequest, path: str) -> bytes:
        """Remove one queue."""
        refuse_rest(parameters(request), "none")
        await self._change(
            request, AuditedOperation("queue delete", path), lambda: self._manager.delete_queue(path)
        )
        return json_answer(request, {"deleted": path})

    @app.route("/v1/queues/<path:path>/acl", methods=["GET"])
    async def acl(self, request: ControlRequest, path: str) -> bytes:
        """Who may do what with one queue, or with the queue manager, which is named C{.}."""
        refuse_rest(parameters(request), "none")
        return json_answer(request, json_record(await running(self._manager.access.acl(path))))

    @app.route("/v1/queues/<path:path>/acl", methods=["POST"])
    async def change_acl(self, request: ControlRequest, path: str) -> bytes:
        """Allow or deny a right to a principal, or remove all its entries."""
        refuse_rest(parameters(request), "those in the request body")
        wanted = read_acl_change(json_body(request, self._limits.document))
        acl = await self._change(
            request,
            AuditedOperation(f"acl {wanted.action}", path, wanted.details),
            lambda: wanted.ask(self._manager.access, path),
        )
        return json_answer(request, json_record(acl))

    @app.route("/v1/queues/<path:path>/why", methods=["GET"])
    async def why(self, request: ControlRequest, path: str) -> bytes:
        """Whether a principal has a right to a queue, and the entry that decides it."""
        found = parameters(request)
        principal, right = take(found, "principal"), take(found, "right")
        refuse_rest(found, "principal and right")
        verdict = await running(self._manager.access.why(path, principal, right))
        return json_answer(request, json_record(verdict))

    @app.route("/v1/certificates", methods=["GET"])
    async def certificates(self, request: ControlRequest) -> bytes | None:
        """Every certificate that messages can be signed with."""
        refuse_rest(parameters(request), "none")
        certificates = self._manager.access.certificates()
        return await json_list(request, json_records(certificates), self._clock)

    @app.route("/v1/certificates", methods=["POST"])
    async def add_certificate(self, request: ControlRequest) -> bytes:
        """Generate one, or take over one of a file that is in the body."""
        refuse_rest(parameters(request), "those in the request body")
        wanted = json_body(request, self._limits.document)
        work: Callable[[], Awaitable[CertificateSummary]]
        if "file_base64" in wanted:
            imported = read_import(wanted)
            work = partial(at_once, partial(self._manager.access.import_certificate, **imported))
            operation = AuditedOperation("certificate import", imported["sid"] or DEFAULT)
        else:
            options = read_new_certificate(wanted)
            work = partial(self._manager.access.create_certificate, **options)
            operation = AuditedOperation("certificate create", options.get("sid") or DEFAULT, options)
        added = await self._change(request, operation, work)
        return json_answer(request, json_record(added), 201)

    @app.route("/v1/certificates/<fingerprint>", methods=["GET"])
    def certificate(self, request: ControlRequest, fingerprint: str) -> bytes:
        """One certificate; C{default} is the one that is signed with."""
        refuse_rest(parameters(request), "none")
        found = self._manager.access.certificate(read_fingerprint(fingerprint))
        return json_answer(request, json_record(found))

    @app.route("/v1/certificates/<fingerprint>/publish", methods=["POST"])
    async def publish_certificate(self, request: ControlRequest, fingerprint: str) -> bytes:
        """Register one with its user in the directory."""
        refuse_rest(parameters(request), "none")
        published = await self._change(
            request,
            AuditedOperation("certificate publish", fingerprint),
            lambda: self._manager.access.publish_certificate(read_fingerprint(fingerprint)),
        )
        return json_answer(request, json_record(published))

    @app.route("/v1/certificates/<fingerprint>", methods=["DELETE"])
    async def delete_certificate(self, request: ControlRequest, fingerprint: str) -> bytes:
        """Forget one, and its key."""
        refuse_rest(parameters(request), "none")
        deleted = await self._change(
            request,
            AuditedOperation("certificate delete", fingerprint),
            lambda: at_once(lambda: self._manager.access.delete_certificate(fingerprint)),
        )
        return json_answer(request, json_record(deleted))

    @app.route("/v1/transactions", methods=["GET"])
    async def transactions(self, request: ControlRequest) -> bytes | None:
        """Every transaction that has not ended."""
        refuse_rest(parameters(request), "none")
        return await json_list(request, json_records(self._manager.inspection.transactions()), self._clock)

    @app.route("/v1/transactions/<identifier>", methods=["GET"])
    def transaction(self, request: ControlRequest, identifier: str) -> bytes:
        """One transaction, with what it does."""
        refuse_rest(parameters(request), "none")
        found = self._manager.inspection.transaction(guid("the transaction", identifier))
        return json_answer(request, json_record(found))

    @app.route("/v1/transactions/<identifier>/abort", methods=["POST"])
    async def abort(self, request: ControlRequest, identifier: str) -> bytes:
        """Abort one transaction of any application."""
        refuse_rest(parameters(request), "none")
        transaction = guid("the transaction", identifier)
        await self._change(
            request,
            AuditedOperation("transaction abort", format_guid(transaction)),
            lambda: self._manager.abort_transaction(transaction),
        )
        return json_answer(request, {"aborted": format_guid(transaction)})

    @app.route("/v1/messages/<path:message>", methods=["GET"])
    async def explain(self, request: ControlRequest, message: str) -> bytes:
        """All that is known of one message."""
        refuse_rest(parameters(request), "none")
        explanation = await running(self._manager.inspection.explain(MessageIdentifier.parse(message)))
        return json_answer(request, explanation_of(explanation))

    @app.route("/v1/messages/<path:message>/move", methods=["POST"])
    async def move(self, request: ControlRequest, message: str) -> bytes:
        """Move one message to another queue."""
        refuse_rest(parameters(request), "those in the request body")
        wanted = json_body(request, self._limits.document)
        queue = text("queue", wanted.pop("queue", None))
        refuse_rest(wanted, "queue")
        identifier = MessageIdentifier.parse(message)
        await self._change(
            request,
            AuditedOperation("move", str(identifier), {"queue": queue}, identifier),
            lambda: self._manager.move(identifier, queue),
        )
        return json_answer(request, {"id": str(identifier), "queue": queue})

    @app.route("/v1/deadletters", methods=["GET"])
    async def dead_letters(self, request: ControlRequest) -> bytes | None:
        """What lies in both dead-letter queues, the first so many of each."""
        found = parameters(request)
        limit = number("limit", found.pop("limit", str(_DEAD_LETTERS)))
        refuse_rest(found, "limit")
        return await json_stream(request, self._letters(limit), self._clock)

    async def _letters(self, limit: int) -> AsyncIterator[dict[str, Any]]:
        async for place in self._manager.inspection.each_dead_letter(limit):
            yield letter_of(place)

    @app.route("/v1/deadletters/<path:message>/requeue", methods=["POST"])
    async def requeue(self, request: ControlRequest, message: str) -> bytes:
        """Send one dead letter again."""
        refuse_rest(parameters(request), "none")
        letter = MessageIdentifier.parse(message)
        identifier = await self._change(
            request,
            AuditedOperation("deadletter requeue", str(letter), message=letter),
            lambda: self._manager.requeue(letter),
        )
        return json_answer(request, {"id": str(identifier)})

    @app.route("/v1/messages", methods=["POST"])
    async def send_one(self, request: ControlRequest) -> bytes:
        """Send the body as one message."""
        properties = parameters(request)
        destination = take(properties, "destination")
        key = read_key(properties.pop("key", None))
        message = read_message(properties, raw_body(request, self._limits.request_body))
        [identifier] = await shielded(self._manager.send(destination, [message], keys=[key]))
        return json_answer(request, {"id": str(identifier)}, 201)

    @app.route("/v1/messages", methods=["GET"])
    async def receive_one(self, request: ControlRequest) -> None:
        """Receive one message, or look at it."""
        found = parameters(request)
        if request.method == b"HEAD":
            raise MethodNotAllowed("HEAD", "/v1/messages", ["GET", "POST"])
        wanted = self._wanted(found, 1)
        await receive_one(self._receiving, self._clock, request, wanted, wants_json(request))

    @app.route("/v1/send", methods=["POST"])
    async def send(self, request: ControlRequest) -> None:
        """Send what the stream of records holds; most of it is sent already."""
        stream = record_body(request)
        await running(stream.finish())
        await answer_with_identifiers(request, stream, self._clock)

    @app.route("/v1/send", methods=["GET"])
    async def send_steadily(self, request: ControlRequest) -> None:
        """Send what the connection brings from now on."""
        _check_upgrade(request, "/v1/send")
        found = parameters(request)
        is_import = flag("import", found.pop("import", "false"))
        refuse_rest(found, "import")
        caller = request.caller
        sending = SendConnection(request, self._manager, self._limits, self._clock)
        try:
            await sending.run()
        finally:
            if is_import and sending.taken:
                self._audit.tell_of_import(caller, sending.taken)
        await Deferred()

    @app.route("/v1/receive", methods=["GET"])
    async def receive_steadily(self, request: ControlRequest) -> None:
        """Receive on a connection on which the caller confirms too."""
        _check_upgrade(request, "/v1/receive")
        await self._receiving.steadily(request, self._stream_wanted(request))
        await Deferred()

    @app.route("/v1/receive", methods=["POST"])
    async def receive(self, request: ControlRequest) -> None:
        """Receive as a stream of records."""
        await self._receiving.stream(request, self._stream_wanted(request))

    @app.route("/v1/receipts/<stream>/<receipt>", methods=["POST"])
    async def confirm(self, request: ControlRequest, stream: str, receipt: str) -> bytes:
        """Confirm the messages of one receipt."""
        return json_answer(request, {"confirmed": await self._receiving.confirm(stream, receipt)})

    @app.handle_errors(HTTPException)
    def unknown(self, request: IRequest, failure: Failure) -> bytes:
        """The path or the method leads nowhere."""
        assert isinstance(request, ControlRequest)
        path = request.path.decode("utf-8", "replace")
        allowed = getattr(failure.value, "valid_methods", None)
        error = (
            no_such_resource(path)
            if allowed is None
            else MethodNotAllowed(request.method.decode("ascii", "replace"), path, allowed)
        )
        return self._refuse(request, error)

    @app.handle_errors(Exception)
    def refused(self, request: IRequest, failure: Failure) -> bytes | Deferred[None]:
        """The queue manager refuses, or something of ours is broken."""
        assert isinstance(request, ControlRequest)
        error = failure.value
        if not isinstance(error, MQError):
            self._log.failure("A request to the control API failed", failure)
            error = internal_error()
        if request.startedWriting:
            # A cut answer is the one sign of failure that is left; it must not be ended properly.
            request.connection.abortConnection()
            return Deferred()
        return self._refuse(request, error)

    def _refuse(self, request: ControlRequest, error: MQError) -> bytes:
        if isinstance(error, MethodNotAllowed):
            request.responseHeaders.setRawHeaders("allow", [", ".join(error.allowed)])
        return json_answer(request, refusal(error), http_status(error))

    def _wanted(self, found: dict[str, str], count: int) -> ReceiveRequest:
        wanted = ReceiveRequest(
            take(found, "queue"),
            count,
            seconds("timeout", found.pop("timeout")) if "timeout" in found else None,
            flag("peek", found.pop("peek", "false")),
        )
        refuse_rest(found, "queue, timeout and peek")
        return wanted

    def _stream_wanted(self, request: ControlRequest) -> ReceiveRequest:
        found = parameters(request)
        count = number("count", found.pop("count", "1"))
        transactional = flag("transactional", found.pop("transactional", "false"))
        return attrs.evolve(self._wanted(found, count), transactional=transactional)


def _check_upgrade(request: ControlRequest, path: str) -> None:
    """Check that a GET requests an upgrade to records in both directions.

    @raise MethodNotAllowed: it does not.
    """
    if request.method != b"GET" or not asks_for_records(request):
        raise MethodNotAllowed(request.method.decode("ascii", "replace"), path, ["POST"])
