"""Shadow: copies the messages of one queue to a second destination, in the order of its message log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Final

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from msmq.interfaces.manager.queue_manager import IQueueManager
from msmq.interfaces.manager.received_messages import LoggedMessage
from msmq.interfaces.shadows import CopiedMessage, ShadowSummary
from msmq.manager.applications.message_copies import copy_of
from msmq.queues.arriving.message import Message
from msmq.quoting import shown
from msmq.shadow_service.copied_file import CopiedFile
from msmq.shadow_service.settings import ShadowSettings
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.names.name_text import is_format_name
from msmq.structures.status import MessageTooLarge, MQError, Status
from msmq.wire.guid import guid_from_bytes

BATCH: Final = 200
"""Limit on messages that are copied together."""

IDLE: Final = 0.25
"""Seconds between two looks at a message log without new entries."""

STORED: Final = 5.0
"""Seconds between two commits of a position that changes. What was copied since is sent again under its keys
after a takeover.
"""

RETRY: Final = 5.0
"""Seconds between attempts when copies cannot be sent."""

_OF_A_MESSAGE: Final = frozenset(
    {
        Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION,
        Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE,
        Status.MQ_ERROR_ILLEGAL_PROPERTY_SIZE,
        Status.MQ_ERROR_CERTIFICATE_NOT_PROVIDED,
    }
)
"""Refusals that another attempt would get again."""


class Shadow:
    """One shadow, which follows the message log of its queue; the queue itself is not touched.

    Copies request no acknowledgements, and their answers go to the queue of the comparison and nowhere else.
    They are sent under keys, so that each is sent once.
    The position is stored with the messages, so that a standby that takes the store over continues there.

    @param in_thread: calls a function in a worker thread, as C{deferToThread}.
    @param response_queue: the format name of the queue for answers to copies; C{None} without a comparison.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        settings: ShadowSettings,
        manager: IQueueManager,
        reactor: IReactorTime,
        in_thread: Callable[..., Deferred[Any]],
        directory: Path,
        response_queue: str | None,
    ) -> None:
        self.settings = settings
        self._manager = manager
        self._reactor = reactor
        self._in_thread = in_thread
        digest = sha256(settings.queue.lower().encode()).hexdigest()[:16]
        self._path = directory / f"{digest}.copied"
        self._name = f"shadow/{digest}"
        self._response_queue = None if response_queue is None else parse_format_name(response_queue)
        self._file: CopiedFile | None = None
        # The number of the last message that is copied; the store may have an earlier one, or none.
        self._position = 0
        self._stored: int | None = None
        self._stored_at = 0.0
        self._is_of_this_log = False
        self._reason = ""
        self._behind = self._copied = self._skipped = self._gaps = 0
        self._gap = (0, 0)
        self._trimmed = 0
        self._waiting: Deferred[object] | None = None
        self._is_stopping = False
        self._stopped: Deferred[None] | None = None

    def start(self) -> None:
        """Begin to copy: from the end of the message log, or from where it was stopped."""
        self._stopped = Deferred.fromCoroutine(self._run())

    async def stop(self) -> None:
        """Stop after the messages that are being copied."""
        self._is_stopping = True
        if self._waiting is not None:
            self._waiting.cancel()
        if self._stopped is not None:
            await self._stopped
        file, self._file = self._file, None
        if file is not None:
            try:
                # Otherwise another server sends again what was copied last, under the same keys.
                with suppress(MQError, OSError):
                    await self._store_position(file)
            finally:
                await self._in_thread(file.close)

    @property
    def summary(self) -> ShadowSummary:
        """The figures."""
        settings, file = self.settings, self._file
        return ShadowSummary(
            queue=settings.queue,
            destination=settings.destination,
            original_answers=settings.original,
            shadow_answers=settings.shadow,
            paired_by=settings.paired_by,
            late=settings.late,
            condition="waiting" if self._reason else "running",
            reason=self._reason,
            copied=0 if file is None else file.copied,
            skipped=0 if file is None else file.skipped,
            sequence=self._position,
            behind=self._behind,
            copied_since_start=self._copied,
            skipped_since_start=self._skipped,
            gaps_since_start=self._gaps,
            gap_first=self._gap[0],
            gap_last=self._gap[1],
        )

    def copies(self, after: int, count: int) -> Sequence[CopiedMessage]:
        """Messages and their copies."""
        found = [] if self._file is None else self._file.part(after, count)
        return [CopiedMessage(number, _text(one), _text(copy) if copy else "") for number, one, copy in found]

    async def _run(self) -> None:
        while not self._is_stopping:
            try:
                pause = IDLE if await self._copy_next() == 0 else 0.0
                self._reason = ""
            except (MQError, OSError) as error:
                self._note(str(error))
                pause = RETRY
            except Exception as error:  # whatever is wrong with one attempt, the next may succeed
                self._note_failure(f"unexpected {type(error).__name__}: {error}")
                pause = RETRY
            if pause and not self._is_stopping:
                self._waiting = deferLater(self._reactor, pause, lambda: None)
                try:
                    await self._waiting
                except CancelledError:
                    return
                finally:
                    self._waiting = None

    def _note(self, reason: str) -> None:
        if reason != self._reason:
            self._reason = reason
            self.log.warn(
                "the shadow of {queue} waits: {reason}", queue=shown(self.settings.queue), reason=reason
            )

    def _note_failure(self, reason: str) -> None:
        if reason != self._reason:
            self._reason = reason
            self.log.failure(
                "the shadow of {queue} has failed, and tries again", queue=shown(self.settings.queue)
            )

    async def _copy_next(self) -> int:
        """Copy the next messages of the log; returns their number."""
        inspection = self._manager.inspection
        file = await self._opened()
        if self._stored is None or self._reactor.seconds() - self._stored_at >= STORED:
            await self._store_position(file)
        found = await inspection.logged(self.settings.queue, self._position, BATCH)
        extent = await inspection.log_extent(self.settings.queue)
        if extent.trimmed > max(self._position, self._trimmed):
            # What was read may have lacked these already, or not; the next look is after the trimming.
            self._trimmed = extent.trimmed
            return 1
        if extent.trimmed > max(self._position, self._gap[1]):
            self._note_gap(self._position + 1, extent.trimmed)
        self._behind = len(found)
        if not found:
            return 0
        if len(found) == BATCH:
            self._behind = max(self._behind, extent.last - self._position)
        messages = self._copies(found)
        try:
            sent = await self._send(found, messages)
        except MQError as error:
            # Of several, some may be copied: one is refused, or there is no space for all of them together.
            if not _is_of_a_message(error) and error.status != Status.MQ_ERROR_INSUFFICIENT_RESOURCES:
                raise
            sent = await self._send_some(found, messages)
            found = found[: len(sent)]
        file.add(
            [(logged.sequence, logged.view.identity, copy) for logged, copy in zip(found, sent, strict=True)]
        )
        self._position = file.sequence
        copied = sum(1 for copy in sent if copy)
        self._copied += copied
        self._skipped += len(sent) - copied
        self._behind -= len(found)
        if file.is_full:
            await self._replace(file, file.halved)
        return len(found)

    async def _store_position(self, file: CopiedFile) -> None:
        """Store the position, if the store has another one.

        @raise OSError: the file could not be synchronised to disk.
        @raise MQError: the position could not be stored.
        """
        position = self._position
        if position != self._stored:
            # The file has the identifiers up to there, also after a power failure.
            await self._in_thread(file.sync)
            await self._manager.service_values.store([(self._name, b"%d" % position)])
            self._stored = position
        self._stored_at = self._reactor.seconds()

    def _note_gap(self, first: int, last: int) -> None:
        """Note that messages of this queue were trimmed before they were copied: the last of them, at least.

        The numbers are those of all message logs, so they say only how many these are at most.
        """
        self._gaps += 1
        self._gap = first, last
        most = last - first + 1
        self.log.warn(
            "the shadow of {queue} has missed messages: those from number {first} to {last} of the message"
            " log, at most {most}, were trimmed before they were copied",
            queue=shown(self.settings.queue),
            first=first,
            last=last,
            most=most,
        )
        self._manager.note(
            "shadow_incomplete",
            f"messages from number {first} to {last} of the message log, at most {most}, were trimmed before"
            " they were copied",
            queue=self.settings.queue,
        )

    async def _opened(self) -> CopiedFile:
        """The file of this shadow, which is of the message log that the queue has."""
        file = self._file
        if file is not None and self._is_of_this_log:
            return file
        extent = await self._manager.inspection.log_extent(self.settings.queue)
        if file is None:
            stored = self._manager.service_values.read(self._name).get(self._name)
            self._stored = None if stored is None else int(stored)
            # What was trimmed before a shadow began is not missed.
            begin = max(extent.last, extent.trimmed) if self._stored is None else self._stored
            file = self._file = await self._in_thread(CopiedFile, self._path, begin)
            # Another server may have copied since the file was written here, and its end may not be stored.
            self._position = file.sequence if self._stored is None else max(file.sequence, self._stored)
        # An empty log has no last number.
        self._is_of_this_log = extent.last > 0
        if 0 < extent.last < self._position:
            self.log.warn(
                "the shadow of {queue} begins again after message {last} of the message log, which is older"
                " than message {copied}, which was copied: the store was replaced by an earlier one",
                queue=shown(self.settings.queue),
                last=extent.last,
                copied=self._position,
            )
            file = await self._replace(file, file.begun_again, extent.last)
            self._position = extent.last
        return file

    async def _replace(
        self, file: CopiedFile, make: Callable[..., CopiedFile], *arguments: object
    ) -> CopiedFile:
        self._file = await self._in_thread(make, *arguments)
        await self._in_thread(file.close)
        return self._file

    def _copies(self, found: Sequence[LoggedMessage]) -> list[Message]:
        to = self.settings.to
        transactional: bool | None = None
        if not is_format_name(to):
            transactional = self._manager.inspection.queue(to).transactional
        copies = []
        for logged in found:
            copy = attrs.evolve(copy_of(logged.view, False), response_queue=self._response_queue)
            if transactional is not None:
                copy = attrs.evolve(copy, transactional=transactional)
            copies.append(copy)
        return copies

    async def _send(self, found: Sequence[LoggedMessage], messages: Sequence[Message]) -> list[bytes]:
        keys = [f"shadow {self.settings.queue.lower()} {logged.sequence}" for logged in found]
        return [
            identifier.to_bytes()
            for identifier in await self._manager.send(self.settings.to, messages, keys=keys)
        ]

    async def _send_some(self, found: Sequence[LoggedMessage], messages: Sequence[Message]) -> list[bytes]:
        """Send copies one by one, up to one for which there is no space now; at least one."""
        sent: list[bytes] = []
        for logged, message in zip(found, messages, strict=True):
            try:
                sent.append(await self._send_one(logged, message))
            except MQError:
                if not sent:
                    raise
                break
        return sent

    async def _send_one(self, logged: LoggedMessage, message: Message) -> bytes:
        try:
            [copy] = await self._send([logged], [message])
        except MQError as error:
            if not _is_of_a_message(error):
                raise
            self._manager.note(
                "shadow_skipped", str(error), queue=self.settings.queue, message=logged.view.identifier
            )
            return b""
        return copy


def _is_of_a_message(error: MQError) -> bool:
    """Whether another attempt to copy the same message would be refused, too."""
    return error.status in _OF_A_MESSAGE or isinstance(error, MessageTooLarge)


def _text(identity: bytes) -> str:
    return str(MessageIdentifier(guid_from_bytes(identity[:16]), int.from_bytes(identity[16:], "little")))
