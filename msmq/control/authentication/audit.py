"""Audit log: the caller of each change, as one log line and one event.

Sends and receives are not audited: they are too many, and the event log traces each message.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import ClassVar, Final, TypeVar

import attrs
from twisted.logger import Logger

from msmq.control.authentication.callers import Caller
from msmq.control.protocol.refusals import internal_error
from msmq.persistence.changes import ADMINISTERED
from msmq.quoting import shown
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.name_text import is_format_name
from msmq.structures.status import MQError

_T = TypeVar("_T")

_LONGEST: Final = 1000


@attrs.frozen
class AuditedOperation:
    """A change that a caller requests.

    @ivar name: the operation as the command names it: C{queue purge}.
    @ivar target: the object of the change: a path or an identifier.
    @ivar details: the parameters of the change; never a secret.
    @ivar message: the message that the operation changes, if it changes a single one.
    """

    name: str
    target: str
    details: Mapping[str, object] = attrs.field(factory=dict)
    message: MessageIdentifier | None = None

    @property
    def queue(self) -> str:
        r"""The queue of the operation as events name it: C{private$\orders}, a format name, or empty."""
        text = str(self.details.get("queue", "")) if self.message is not None else self.target
        if is_format_name(text):
            return text
        computer, separator, rest = text.partition("\\")
        # A path on this queue manager; events omit the computer name.
        return rest if separator and computer else ""

    def __str__(self) -> str:
        text = f"{self.name} {shown(self.target, _LONGEST)}"
        return f"{text} {shown(json.dumps(self.details, default=str), _LONGEST)}" if self.details else text


class Audit:
    """Writes operations and their callers to the log and the event log.

    @param note: appends to the event log; see L{msmq.interfaces.IAdministration.note}.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, note: Callable[..., object]) -> None:
        self._note = note

    async def change(
        self, caller: Caller, operation: AuditedOperation, work: Callable[[], Awaitable[_T]]
    ) -> _T:
        """Perform a change, and record it when it has ended, even if its caller has disconnected."""
        try:
            result = await work()
        except MQError as error:
            self.record(caller, operation, error=error)
            raise
        except Exception:
            self.record(caller, operation, error=internal_error())
            raise
        self.record(caller, operation, result=_result(result))
        return result

    def record_import(self, caller: Caller, taken: Mapping[str, int]) -> None:
        """Log the number of messages that an import sent.

        @param taken: the number of accepted messages, by destination.
        """
        for destination, count in taken.items():
            self.record(caller, AuditedOperation("import", destination), result=_messages(count))

    def record(
        self, caller: Caller, operation: AuditedOperation, *, result: str = "", error: MQError | None = None
    ) -> None:
        """Log the result of an operation.

        Text from the caller comes last in the line, so that it cannot imitate other fields.

        @param result: a short description of the result.
        @param error: the reason for a failed or incomplete operation.
        """
        outcome, reason = "done", result
        if error is not None:
            outcome, reason = f"refused with {error.status.name}", error.detail
        line = f"{caller}: {outcome}: {operation}" + (f" ({shown(reason, _LONGEST)})" if reason else "")
        self.log.info(
            "{line}",
            line=line,
            caller=str(caller),
            **attrs.asdict(caller),
            outcome="done" if error is None else "refused",
            error=None if error is None else error.status.name,
            operation=operation.name,
            target=operation.target,
            details=dict(operation.details),
            reason=reason,
        )
        # A failed operation has changed no message, which may not even exist.
        message = operation.message if error is None else None
        self._note(ADMINISTERED, line, queue=shown(operation.queue, _LONGEST), message=message)


def _result(result: object) -> str:
    """The result of a change: the number of messages, or the identifier of the new message."""
    if isinstance(result, int):
        return _messages(result)
    return str(result) if isinstance(result, MessageIdentifier) else ""


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"
