"""Resources that remove, move, copy and requeue messages of a queue, selected by filter or identifier."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import attrs
from klein import Klein
from twisted.internet.defer import CancelledError, Deferred

from msmq.control.authentication.audit import AuditedOperation
from msmq.control.authentication.callers import Caller
from msmq.control.protocol.message_documents import divide_document
from msmq.control.protocol.refusals import invalid, refusal
from msmq.control.server.http.disconnection import next_reactor_turn, running, shielded
from msmq.control.server.http.evaluation_shares import EvaluationShare
from msmq.control.server.http.requests import ControlRequest, json_body, refuse_rest
from msmq.control.server.http.responses import JSON_LINES, ResponseStream
from msmq.control.server.messages.properties import flag, number, read_properties, text
from msmq.control.server.resources.context import ResourceContext, without_parameters
from msmq.control.server.resources.message_filter import MessageFilter
from msmq.control.server.resources.message_search import (
    PAGE,
    PROGRESS,
    TURN,
    MessageDescriber,
    MessageSearch,
    json_line,
)
from msmq.interfaces.manager.message_administration import MessageChange
from msmq.interfaces.manager.received_messages import MessagePage, ReceivedMessage
from msmq.queues.available_positions import SEQUENTIAL_MASK
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status

Act = Callable[[Sequence[int]], Awaitable[Sequence[MessageChange]]]
"""Changes messages of one queue, given by LookupIdentifiers."""


@attrs.frozen
class MessageAction:
    """An action on messages.

    @ivar name: as the command has it.
    @ivar done: the participle for texts: C{removed}.
    @ivar details: for the audit log.
    @ivar refuses: returns why a message is not changed unless it is selected by its identifier or its class.
    @ivar takes_unreadable: whether messages that cannot be read are changed with all others of their queue.
    """

    name: str
    done: str
    act: Act
    details: dict[str, object]
    refuses: Callable[[ReceivedMessage], MQError | None] = lambda _: None
    takes_unreadable: bool = False


class MessageChangeResources:
    """Changes of many messages, in slices between which the reactor serves others.

    A change stops when its client disconnects, after the current slice; finished changes are not undone.
    Only messages that were in the queue when it began are changed.
    """

    app = Klein()

    def __init__(self, context: ResourceContext) -> None:
        self._context = context
        self._manager = context.manager
        self._describer = MessageDescriber()

    @app.route("/v1/queues/<path:path>/messages/remove", methods=["POST"])
    async def remove(self, request: ControlRequest, path: str) -> None:
        """Remove messages without receiving them."""
        wanted = self._context.document(request)
        messages = self._manager.message_administration
        await self._change(
            request,
            path,
            wanted,
            MessageAction(
                "message remove",
                "removed",
                lambda ids: messages.remove(path, ids),
                {},
                takes_unreadable=True,
            ),
        )

    @app.route("/v1/queues/<path:path>/messages/move", methods=["POST"])
    async def move(self, request: ControlRequest, path: str) -> None:
        """Move messages to another local queue."""
        wanted = self._context.document(request)
        queue = text("queue", wanted.pop("queue", None))
        messages = self._manager.message_administration
        # Check the destination even if no message matches.
        await running(messages.move(path, [], queue))
        action = MessageAction(
            "message move", "moved", lambda ids: messages.move(path, ids, queue), {"queue": queue}
        )
        await self._change(request, path, wanted, action)

    @app.route("/v1/queues/<path:path>/messages/copy", methods=["POST"])
    async def copy(self, request: ControlRequest, path: str) -> None:
        """Send copies of messages; C{message} replaces the copy of a single one."""
        without_parameters(request)
        wanted = json_body(request, self._context.limits.request_body)
        to = text("destination", wanted.pop("destination", None))
        in_clear = flag("in_clear", wanted.pop("in_clear", False))
        edited = wanted.pop("message", None)
        message = None if edited is None else _edited(edited)
        messages = self._manager.message_administration
        if message is None:
            await running(messages.copy(path, [], to, in_clear=in_clear))
        action = MessageAction(
            "message copy",
            "copied",
            lambda ids: messages.copy(path, ids, to, in_clear=in_clear, edited=message),
            {"destination": to, "in_clear": in_clear, **({} if edited is None else {"edited": True})},
        )
        await self._change(request, path, wanted, action)

    @app.route("/v1/queues/<path:path>/messages/requeue", methods=["POST"])
    async def requeue(self, request: ControlRequest, path: str) -> None:
        """Send dead letters again; C{message} replaces a single one.

        They are sent with the rights of this queue manager, so those that another sender lacked rights for
        are not selected by accident.
        """
        without_parameters(request)
        wanted = json_body(request, self._context.limits.request_body)
        to = None if wanted.get("to") is None else text("to", wanted["to"])
        wanted.pop("to", None)
        edited = wanted.pop("message", None)
        message = None if edited is None else _edited(edited)
        messages = self._manager.message_administration
        if message is None:
            await running(messages.requeue(path, [], to=to))
        own = self._manager.inspection.status().identifier.bytes_le
        action = MessageAction(
            "deadletter requeue",
            "requeued",
            lambda ids: messages.requeue(path, ids, to=to, edited=message),
            {**({} if to is None else {"to": to}), **({} if edited is None else {"edited": True})},
            lambda found: None if to is not None else _sender_refused(found, own),
        )
        await self._change(request, path, wanted, action)

    async def _change(
        self, request: ControlRequest, path: str, wanted: dict[str, Any], action: MessageAction
    ) -> None:
        is_dry = flag("dry_run", wanted.pop("dry_run", False))
        selection = _Selection.read(wanted)
        stream = ResponseStream(request, JSON_LINES)
        change = _MessageChanges(
            self._context,
            self._describer,
            path,
            selection,
            action,
            stream,
            is_dry=is_dry,
            share=self._context.evaluations.of(request.account),
        )
        try:
            await change.run(request)
        finally:
            stream.close()


@attrs.frozen
class _Selection:
    """Selection of messages of a queue.

    @ivar lookup_ids: the selected identifiers; C{None} selects by the filter.
    @ivar after: the LookupIdentifier after which to begin.
    @ivar limit: the most messages.
    """

    lookup_ids: Sequence[int] | None
    matching: MessageFilter
    after: int
    limit: int | None
    described: dict[str, object]

    @property
    def is_all(self) -> bool:
        """Whether all messages of the queue are selected, without a limit."""
        return self.lookup_ids is None and self.matching.is_empty and self.limit is None

    @property
    def is_deliberate(self) -> bool:
        """Whether the messages are selected by their identifiers or their class."""
        return self.lookup_ids is not None or self.matching.uses_class

    @classmethod
    def read(cls, wanted: dict[str, Any]) -> _Selection:
        described = {key: value for key, value in wanted.items() if value is not None}
        named = wanted.pop("lookup_ids", None)
        if named is not None and not isinstance(named, list):
            raise invalid("lookup_ids is an array of whole numbers")
        lookup_ids = None if named is None else [number("lookup_ids", each) for each in named]
        where, body = wanted.pop("where", None), wanted.pop("body", None)
        after, limit = wanted.pop("after", None), wanted.pop("limit", None)
        is_all = flag("all", wanted.pop("all", False))
        refuse_rest(wanted, "lookup_ids, where, body, after, limit, all and dry_run")
        if [lookup_ids is not None, where is not None or body is not None, is_all].count(True) != 1:
            raise invalid("select messages: lookup_ids, where or body, or all: true")
        matching = MessageFilter(
            None if where is None else text("where", where), None if body is None else text("body", body)
        )
        return cls(
            lookup_ids,
            matching,
            -1 if after is None else number("after", after),
            None if limit is None else number("limit", limit),
            described,
        )


class _MessageChanges:
    """One request to change messages: finds a slice, changes it, reports it, and goes on."""

    def __init__(
        self,
        context: ResourceContext,
        describer: MessageDescriber,
        path: str,
        selection: _Selection,
        action: MessageAction,
        stream: ResponseStream,
        *,
        is_dry: bool,
        share: EvaluationShare,
    ) -> None:
        self._share = share
        self._context = context
        self._inspection = context.manager.inspection
        self._describer = describer
        self._path = path
        self._selection = selection
        self._action = action
        self._stream = stream
        self._is_dry = is_dry
        self._last = context.manager.message_administration.last_sequential
        self._search = MessageSearch(
            describer, selection.matching, selection.limit, with_body=False, is_decoded=False, share=share
        )
        self._done = 0
        self._failed = 0
        self._reported = self._began = context.clock.seconds()
        # Fires when the slice under way has ended, with its error.
        self._slice: Deferred[Exception | None] | None = None

    async def run(self, request: ControlRequest) -> None:
        """Change all selected messages, and record the caller and the count."""
        action = self._action
        operation = AuditedOperation(
            action.name, self._path, {**action.details, **_shortened(self._selection.described)}
        )
        tell = self._context.audit.record
        caller = request.caller
        if self._is_dry:
            await self._refusable()
            return
        try:
            await self._refusable()
        except MQError as error:
            if self._done or self._failed:
                error = MQError(error.status, f"{error.detail}; before that, {self._result()}")
            tell(caller, operation, error=error)
            if not self._stream.is_open:
                raise error from None
            self._stream.write(json_line({**refusal(error), "done": self._done, "failed": self._failed}))
        except CancelledError:
            # The current slice is completed.
            if self._slice is None:
                self._left(caller, operation)
            else:
                self._slice.addCallback(lambda error: self._left(caller, operation, error))
            raise
        else:
            tell(caller, operation, result=self._result())

    def _left(self, caller: Caller, operation: AuditedOperation, error: Exception | None = None) -> None:
        """Record the end of a change whose client has disconnected.

        @param error: of its last slice.
        """
        result = f"{self._result()}, then the client disconnected"
        if error is None:
            self._context.audit.record(caller, operation, result=result)
        else:
            status = error.status if isinstance(error, MQError) else Status.MQ_ERROR
            detail = error.detail if isinstance(error, MQError) else f"{type(error).__name__}: {error}"
            self._context.audit.record(
                caller, operation, error=MQError(status, f"{detail}; before that, {result}")
            )

    def _result(self) -> str:
        failed = f", {self._failed} refused" if self._failed else ""
        messages = "1 message was" if self._done == 1 else f"{self._done} messages were"
        return f"{messages} {self._action.done}{failed}"

    async def _refusable(self) -> None:
        if self._selection.lookup_ids is not None:
            await self._named(self._selection.lookup_ids)
        else:
            await self._matching()

    async def _named(self, lookup_ids: Sequence[int]) -> None:
        for start in range(0, len(lookup_ids), PAGE):
            part = lookup_ids[start : start + PAGE]
            self._stream.check_caller()
            if self._is_dry:
                for lookup_id in part:
                    self._stream.write(json_line(await self._listed(lookup_id)))
            else:
                changed = await self._change_slice(part)
                for lookup_id in sorted(set(part) - {change.lookup_id for change in changed}):
                    self._failed += 1
                    self._stream.write(json_line(_not_there(lookup_id)))
            await self._pause()
        self._stream.write(json_line({"end": "queue", "done": self._done, "failed": self._failed}))

    async def _listed(self, lookup_id: int) -> dict[str, Any]:
        """A message that would be changed."""
        try:
            message = await running(self._inspection.read_message(self._path, lookup_id))
        except MQError:
            if self._action.takes_unreadable:
                page = await running(self._inspection.browse(self._path, after=lookup_id - 1, count=1))
                if lookup_id in page.unreadable:
                    return _unreadable(lookup_id, page)
            raise
        return self._search.described(message)

    async def _matching(self) -> None:
        page = await self._page(self._selection.after)
        while True:
            # Earlier pages are finished; a moved or removed message is not in the next page.
            found: list[int] = []
            await self._share.ready()
            self._stream.check_caller()
            for message in self._search.matching(self._without_later_arrivals(page)):
                if message is not None and not self._is_refused(message):
                    found.append(message.lookup_id)
                    if self._is_dry:
                        self._stream.write(json_line(self._search.described(message)))
                await self._pause(TURN)
            if self._selection.is_all and self._action.takes_unreadable:
                found += self._unreadable(page)
            if found and not self._is_dry:
                await self._change_slice(found)
            if self._search.is_over(page):
                break
            await self._pause()
            page = await self._page(page.last)
        end = self._search.ended()
        self._stream.write(json_line({**end, "done": self._done, "failed": self._failed}))

    def _unreadable(self, page: MessagePage) -> list[int]:
        """The messages of a page that the store cannot read."""
        found = [each for each in page.unreadable if each & SEQUENTIAL_MASK <= self._last]
        if self._is_dry:
            for each in found:
                self._stream.write(json_line(_unreadable(each, page)))
        return found

    def _is_refused(self, message: ReceivedMessage) -> bool:
        """Whether a message is not changed, which is reported."""
        error = None if self._selection.is_deliberate else self._action.refuses(message)
        if error is None:
            return False
        self._failed += 1
        change = MessageChange(message.lookup_id, message.view.identifier, None, error)
        self._stream.write(json_line(_described(change)))
        return True

    async def _page(self, after: int) -> MessagePage:
        return await running(self._inspection.browse(self._path, after=after, count=PAGE))

    def _without_later_arrivals(self, page: MessagePage) -> MessagePage:
        """Exclude messages that arrived after the change began."""
        return attrs.evolve(page, messages=[each for each in page.messages if self._was_there(each)])

    def _was_there(self, message: ReceivedMessage) -> bool:
        return message.lookup_id & SEQUENTIAL_MASK <= self._last

    async def _change_slice(self, lookup_ids: Sequence[int]) -> Sequence[MessageChange]:
        """Change a slice; it is changed even if the client disconnects meanwhile."""
        ended: Deferred[Exception | None] = Deferred()
        self._slice = ended
        changed = await shielded(self._count(lookup_ids, ended))
        self._slice = None
        for change in changed:
            self._stream.write(json_line(_described(change)))
        return changed

    async def _count(
        self, lookup_ids: Sequence[int], ended: Deferred[Exception | None]
    ) -> Sequence[MessageChange]:
        try:
            changed = await self._action.act(lookup_ids)
        except Exception as error:
            ended.callback(error)
            raise
        failed = sum(change.error is not None for change in changed)
        self._failed += failed
        self._done += len(changed) - failed
        ended.callback(None)
        return changed

    async def _pause(self, turn: float = 0.0) -> None:
        """Yield to the reactor after long enough work, and report progress."""
        clock = self._context.clock
        now = clock.seconds()
        if turn and now - self._began < turn:
            return
        if now - self._reported >= PROGRESS:
            self._reported = now
            self._stream.write(
                json_line({**self._search.progress(), "done": self._done, "failed": self._failed})
            )
        await next_reactor_turn(clock)
        await self._stream.drained()
        await self._share.ready()
        # A page of slow comparisons takes minutes.
        self._stream.check_caller()
        self._began = clock.seconds()


def _sender_refused(message: ReceivedMessage, own: bytes) -> MQError | None:
    """The error of a dead letter of another queue manager whose sender was refused.

    @param own: the identifier of this queue manager.
    """
    view = message.view
    if view.message_class not in _SENDER_REFUSED or view.source_queue_manager == own:
        return None
    return MQError(
        Status.MQ_ERROR_ACCESS_DENIED,
        f"its sender was refused with {MessageClass(view.message_class).name}, and a requeue sends it with"
        " the rights of this queue manager; select it by its identifier or class, or name another target",
    )


def _edited(document: object) -> dict[str, Any]:
    """The properties and the body that a document replaces in a message."""
    properties, body = divide_document(document)
    changed = read_properties(properties)
    return changed if body is None else {**changed, "body": body}


_SENDER_REFUSED: Final = (MessageClass.NACK_ACCESS_DENIED, MessageClass.NACK_BAD_SIGNATURE)
_SHOWN_IDS: Final = 5


def _shortened(described: dict[str, object]) -> dict[str, object]:
    """A short form of the selection for the audit log."""
    named = described.get("lookup_ids")
    if isinstance(named, list) and len(named) > _SHOWN_IDS:
        return {**described, "lookup_ids": [*named[:_SHOWN_IDS], f"and {len(named) - _SHOWN_IDS} more"]}
    return described


def _described(change: MessageChange) -> dict[str, Any]:
    value: dict[str, Any] = {
        "lookup_id": change.lookup_id,
        "id": None if change.identifier is None else str(change.identifier),
    }
    if change.new is not None:
        value["new_id"] = str(change.new)
    if change.error is not None:
        value |= refusal(change.error)
    return value


def _unreadable(lookup_id: int, page: MessagePage) -> dict[str, Any]:
    return {"lookup_id": lookup_id, "id": None, "unreadable": page.unreadable[lookup_id]}


def _not_there(lookup_id: int) -> dict[str, Any]:
    return {
        "lookup_id": lookup_id,
        "error": "MQ_ERROR_MESSAGE_NOT_FOUND",
        "detail": "it was received or removed, or a reader or a transaction holds it",
    }
