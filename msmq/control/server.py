"""The control API: one tree of resources below C{/v1}; C{docs/control.md} describes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from klein import Klein
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import Request as HTTPRequest
from twisted.web.iweb import IRequest
from twisted.web.server import Site
from werkzeug.exceptions import HTTPException

from msmq.control.limits import ControlLimits
from msmq.control.properties import flag, number, read_message, seconds, text
from msmq.control.receiving import ReceiveRequest, Receiving
from msmq.control.refusals import MethodNotAllowed, http_status, internal_error, no_such_resource, refusal
from msmq.control.requests import (
    ControlRequest,
    json_body,
    parameters,
    raw_body,
    record_body,
    refuse_rest,
    take,
    wants_json,
)
from msmq.control.responses import JSON_LINES, ResponseStream, json_answer, json_list, to_json
from msmq.control.sending import SendStream
from msmq.control.single import receive_one
from msmq.control.waiting import give_way, running, shielded
from msmq.interfaces.queue_manager import IQueueManager
from msmq.structures.status import MQError

_QUEUE_PARAMETERS: Final = {
    "transactional": flag,
    "journal": flag,
    "log": flag,
    "quota": number,
    "journal_quota": number,
    "label": text,
    "authenticate": flag,
    "privacy": text,
}

_QUOTAS: Final = ("quota", "journal_quota")

_IDENTIFIERS_AT_ONCE: Final = 500


class ControlAPI:
    """Answers the requests; every refusal is an object with C{error} and C{detail}."""

    _log = Logger()
    app = Klein()

    def __init__(self, manager: IQueueManager, limits: ControlLimits, clock: IReactorTime) -> None:
        self._manager = manager
        self._limits = limits
        self._clock = clock
        self._receiving = Receiving(manager, limits, clock)

    @app.route("/v1/status", methods=["GET"])
    def status(self, request: ControlRequest) -> bytes:
        """What the queue manager is and how it does."""
        refuse_rest(parameters(request), "none")
        return json_answer(request, dict(self._manager.status()))

    @app.route("/v1/queues", methods=["GET"])
    async def queues(self, request: ControlRequest) -> bytes | None:
        """Every queue."""
        refuse_rest(parameters(request), "none")
        return await json_list(request, self._manager.queues(), self._clock)

    @app.route("/v1/queues", methods=["POST"])
    async def create_queue(self, request: ControlRequest) -> bytes:
        """Make a queue of what the body says."""
        refuse_rest(parameters(request), "those in the request body")
        wanted = json_body(request, self._limits.document)
        path = text("path", wanted.pop("path", None))
        arguments: dict[str, Any] = {
            name: read(name, wanted.pop(name))
            for name, read in _QUEUE_PARAMETERS.items()
            if wanted.get(name) is not None
        }
        refuse_rest(
            {name: value for name, value in wanted.items() if value is not None},
            ", ".join(("path", *_QUEUE_PARAMETERS)),
        )
        queue = await shielded(self._manager.create_queue(path, **arguments))
        return json_answer(request, dict(queue), 201)

    @app.route("/v1/queues/<path:path>", methods=["GET"])
    def queue(self, request: ControlRequest, path: str) -> bytes:
        """One queue."""
        refuse_rest(parameters(request), "none")
        return json_answer(request, dict(self._manager.queue(path)))

    @app.route("/v1/queues/<path:path>", methods=["PATCH"])
    async def set_queue(self, request: ControlRequest, path: str) -> bytes:
        """Change what the body says of one queue."""
        refuse_rest(parameters(request), "those in the request body")
        wanted = json_body(request, self._limits.document)
        properties = {
            name: None if name in _QUOTAS and wanted[name] is None else read(name, wanted[name])
            for name, read in _QUEUE_PARAMETERS.items()
            if name in wanted
        }
        refuse_rest(
            {name: value for name, value in wanted.items() if name not in properties},
            ", ".join(_QUEUE_PARAMETERS),
        )
        queue = await shielded(self._manager.set_queue(path, properties))
        return json_answer(request, dict(queue))

    @app.route("/v1/queues/<path:path>/purge", methods=["POST"])
    async def purge_queue(self, request: ControlRequest, path: str) -> bytes:
        """Remove all messages in one queue."""
        refuse_rest(parameters(request), "none")
        return json_answer(request, {"purged": await shielded(self._manager.purge_queue(path))})

    @app.route("/v1/queues/<path:path>", methods=["DELETE"])
    async def delete_queue(self, request: ControlRequest, path: str) -> bytes:
        """Remove one queue."""
        refuse_rest(parameters(request), "none")
        await shielded(self._manager.delete_queue(path))
        return json_answer(request, {"deleted": path})

    @app.route("/v1/outgoing", methods=["GET"])
    async def outgoing(self, request: ControlRequest) -> bytes | None:
        """Every outgoing queue."""
        refuse_rest(parameters(request), "none")
        return await json_list(request, self._manager.outgoing(), self._clock)

    @app.route("/v1/sessions", methods=["GET"])
    async def sessions(self, request: ControlRequest) -> bytes | None:
        """Every session."""
        refuse_rest(parameters(request), "none")
        return await json_list(request, self._manager.sessions(), self._clock)

    @app.route("/v1/messages", methods=["POST"])
    async def send_one(self, request: ControlRequest) -> bytes:
        """Send the body as one message."""
        properties = parameters(request)
        destination = take(properties, "destination")
        message = read_message(properties, raw_body(request, self._limits.request_body))
        [identifier] = await shielded(self._manager.send(destination, [message]))
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
        await self._identifiers(request, stream)

    @app.route("/v1/receive", methods=["POST"])
    async def receive(self, request: ControlRequest) -> None:
        """Receive as a stream of records."""
        found = parameters(request)
        count = number("count", found.pop("count", "1"))
        await self._receiving.stream(request, self._wanted(found, count))

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

    async def _identifiers(self, request: ControlRequest, stream: SendStream) -> None:
        if stream.error is not None:
            request.setResponseCode(http_status(stream.error))
        answer = ResponseStream(request, JSON_LINES)
        try:
            answer.open()
            for accepted in stream.accepted:
                for start in range(0, accepted.count, _IDENTIFIERS_AT_ONCE):
                    lines = [to_json({"id": text}) for text in accepted.texts(start, _IDENTIFIERS_AT_ONCE)]
                    answer.write(b"\n".join(lines) + b"\n")
                    await give_way(self._clock)
                    await answer.drained()
            if stream.error is not None:
                answer.write(to_json(refusal(stream.error)) + b"\n")
        finally:
            answer.close()


class ControlSite(Site):
    """The control API for any stream of bytes, a unix socket as a rule; it keeps no access log."""

    requestFactory = ControlRequest

    def __init__(self, manager: IQueueManager, limits: ControlLimits, clock: IReactorTime) -> None:
        Site.__init__(self, ControlAPI(manager, limits, clock).app.resource(), reactor=clock)
        self._manager = manager
        self._clock = clock
        self.limits = limits

    def take_in(self, pause: Callable[[], None], resume: Callable[[], None]) -> SendStream:
        """Where a stream of records goes that begins to arrive; the arguments steer its connection."""
        return SendStream(self._manager, self.limits, self._clock, pause, resume)

    def log(self, request: HTTPRequest) -> None:
        """Nothing: what is worth a line is logged where it happens."""


def make_site(
    manager: IQueueManager, *, limits: ControlLimits | None = None, clock: IReactorTime | None = None
) -> ControlSite:
    """The control API of a queue manager, as a factory to listen with.

    @param limits: how much it takes at once; the defaults of L{ControlLimits}.
    @param clock: the reactor, or one that a test advances.
    """
    if clock is None:
        from twisted.internet import reactor

        clock = IReactorTime(reactor)
    chosen = ControlLimits() if limits is None else limits
    return ControlSite(manager, chosen, clock)
