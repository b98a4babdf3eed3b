"""Runs the procedures of the directory core against a directory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Final, TypeVar

import attrs
from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from msmq.interfaces.clock import IClock
from msmq.interfaces.directory import (
    DirectoryError,
    DirectoryOperationResult,
    IConditionalDirectory,
    IDirectory,
)
from msmq.line_limit import LineLimit
from msmq.manager.membership.directory_health import DirectoryHealth
from msmq.membership.access import DirectoryAccess
from msmq.membership.requests import (
    Answer,
    AskDirectory,
    BeginRead,
    CreateObject,
    DeleteObject,
    DirectoryEffect,
    DirectoryRequest,
    EndRead,
    NextRead,
    Outcome,
    Procedure,
    ReadObject,
    ReadObjectSid,
    ResolveDistributionList,
    SendChangeNotification,
    WriteObject,
)

R = TypeVar("R")

LINES: Final = 2
"""Errors of a directory that are logged in a minute: each message of a peer may cause one."""

NO_DIRECTORY = Outcome(DirectoryOperationResult.DIRECTORY_NOT_CONNECTED, detail="no directory is configured")


class DirectoryRunner:
    """Performs the effects of procedures, one after the other.

    Change notifications ([MS-MQCN]) are not sent.

    @param directory: C{None} without one; requests then fail as if it were unreachable.
    @param perform: performs the local effects, and returns their result. An exception is thrown into the
    procedure.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        directory: IDirectory | None,
        clock: IClock,
        perform: Callable[[DirectoryEffect], Awaitable[Any]],
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._perform = perform
        self._lines = LineLimit.a_minute(LINES)

    async def run(self, procedure: Procedure[R]) -> R:
        """Run a procedure, and return its result.

        @raise Exception: the exception of the procedure.
        """
        try:
            effect = next(procedure)
            while True:
                try:
                    outcome = await self._outcome(effect)
                except Exception as error:
                    effect = procedure.throw(error)
                else:
                    effect = procedure.send(Answer(self._clock.now(), outcome))
        except StopIteration as stop:
            result: R = stop.value
            return result
        finally:
            procedure.close()

    async def _outcome(self, effect: DirectoryEffect) -> Outcome:
        match effect:
            case AskDirectory(request):
                return await self._ask(request)
            case SendChangeNotification():
                return Outcome()
        return Outcome(value=await self._perform(effect))

    async def _ask(self, request: DirectoryRequest) -> Outcome:
        if self._directory is None:
            return NO_DIRECTORY
        try:
            return Outcome(value=await _call(self._directory, request))
        except DirectoryError as error:
            return Outcome(error.result, detail=error.detail)
        except CancelledError:
            # A caller's time-out does not mark the directory as failed.
            return Outcome(DirectoryOperationResult.GENERIC_ERROR, detail="it took too long")
        except Exception as error:
            if (others := self._lines.take(self._clock.now())) is not None:
                self.log.failure(
                    "the directory {name} failed{others}", name=self._directory.name, others=others
                )
            return Outcome(DirectoryOperationResult.GENERIC_ERROR, detail=f"{type(error).__name__}: {error}")


@attrs.frozen(eq=False)
class DirectoryClient:
    """A directory as one queue manager uses it.

    @ivar access: its cached data, and the procedures of [MS-MQDMPR] 3.1.7.
    @ivar runner: runs those procedures.
    @ivar health: whether it is reachable, and when its data was read.
    """

    directory: IDirectory
    access: DirectoryAccess
    runner: DirectoryRunner
    health: DirectoryHealth


async def _call(directory: IDirectory, request: DirectoryRequest) -> Any:
    match request:
        case CreateObject():
            return await directory.create(request.object, request.attributes)
        case DeleteObject():
            await directory.delete(request.object)
        case ReadObject():
            return await directory.read(request.of, request.filters, request.attributes)
        case BeginRead():
            return await directory.begin_read(request.of, request.filters, request.attributes, request.order)
        case NextRead():
            return await directory.read_next(request.handle)
        case EndRead():
            await directory.end_read(request.handle)
        case WriteObject():
            return await _write(directory, request)
        case ResolveDistributionList():
            return await directory.resolve_distribution_list(request.name)
        case ReadObjectSid():
            return await directory.object_sid(request.computer_name)
    return None


async def _write(directory: IDirectory, request: WriteObject) -> bool:
    conditional = IConditionalDirectory(directory, None)
    if request.former is None or request.attributes is None or conditional is None:
        await directory.write(request.object, request.attributes)
        return True
    is_written: bool = await conditional.write_if_unchanged(
        request.object, request.former, request.attributes
    )
    return is_written
