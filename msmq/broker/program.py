"""A broker inside a server: its queues, what processes their messages, and the limit on waiting ones."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, Protocol
from uuid import UUID

from twisted.internet.defer import CancelledError, Deferred, DeferredLock, gatherResults
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from msmq.broker.arguments import DeclaredQueue
from msmq.broker.in_process import MessagesInProcess
from msmq.broker.processor import Handler, MessageProcessor
from msmq.broker.sessions import BrokerSession
from msmq.errors import MsmqError
from msmq.interfaces.clock import IClock
from msmq.interfaces.server_program import IServerProgram
from msmq.interfaces.session import ISession
from msmq.manager.administration.summaries import queue_path
from msmq.manager.service import QueueManagerService
from msmq.net.hooks import call_slow_hook
from msmq.net.session_factory import MakeSession
from msmq.queues.queue import Queue
from msmq.quoting import quoted
from msmq.session.effects import CloseReason
from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.names.path_name import parse_path_name
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from msmq.wire.guid import NULL_GUID

ON_DEMAND: Final = 1000
"""Queues of a broker from which on none is created because a message is for it.

It counts those of former starts too, which peers may have caused.
"""

RECHECK_INTERVAL: Final = 5.0
"""Seconds between checks of the waiting messages while sessions wait: some expire, or are purged."""

LONGEST_HOLD: Final = 120.0
"""Seconds for which a session is not read; then it closes.

Peers close a session on which nothing happens for 5 minutes, and send again on another what they have sent on
this one; what is read here much later would not be recognized as a duplicate (reading 46).
"""

_NULL: Final = NULL_GUID.bytes_le


class BrokerStartError(MsmqError):
    """A broker cannot work with its queue manager; has the reason."""


class SessionHandler(Handler, Protocol):
    """The coroutines of a broker."""

    def session_opened(self, session: ISession) -> Coroutine[Any, Any, None]:
        """A session has begun."""

    def session_closed(self, session: ISession, reason: CloseReason) -> Coroutine[Any, Any, None]:
        """A session has ended."""


@implementer(IServerProgram)
class BrokerProgram:
    """Processing of messages by a broker with a given queue manager, in any server.

    @param broker: its coroutines.
    @param queues: the declared queues; C{None} for every private queue, created on demand.
    @param concurrency: how many messages are processed at a time.
    @param backlog: how many messages may wait before its sessions read no more.
    @ivar manager: the queue manager, from L{prepare} on.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        broker: SessionHandler,
        queues: Sequence[DeclaredQueue] | None,
        concurrency: int,
        backlog: int,
        reactor: IReactorTime,
        clock: IClock,
    ) -> None:
        self._broker = broker
        self._declared = queues
        self._concurrency = concurrency
        self._backlog = backlog
        self._reactor = reactor
        self._clock = clock
        self._processor: MessageProcessor | None = None
        # The one that waits for the messages in process, if any.
        self._ending: MessageProcessor | None = None
        self._creating = DeferredLock()
        # Queues of messages that have arrived, by their identifiers.
        self._known: set[UUID] = set()
        self._found: dict[str, Queue | None] = {}
        # The sessions that are not read, each with the second at which it closes.
        self._held: dict[Deferred[bool], float] = {}
        self._recheck: IDelayedCall | None = None
        self._events: dict[ISession, Deferred[None]] = {}
        # The coroutines for sessions, which end with the broker as messages in process do.
        self._hooks = MessagesInProcess(reactor)
        self._is_paused = False
        self.manager: QueueManagerService | None = None
        self.session_protocol: MakeSession = partial(BrokerSession, intake=self)

    # IServerProgram

    async def prepare(self, manager: QueueManagerService) -> None:
        """Create the declared queues that do not exist.

        @raise BrokerStartError: one exists and is of the other kind.
        @raise MQError: one cannot be created.
        """
        self.manager = manager
        self._known.clear()
        self._found.clear()
        self._hooks = MessagesInProcess(self._reactor)
        self._processor = MessageProcessor(
            manager, self._broker, self._concurrency, self._reactor, self._clock, self._finished
        )
        if self._declared is None:
            self._follow_all()
            manager.observe_queues(self._follow_created)
            return
        for declared in self._declared:
            await self._declare(manager, declared)
            self._processor.add(declared.path, is_kept=True)
        others = [
            summary.path
            for summary in manager.inspection.queues()
            if summary.type == "private" and summary.path.lower() not in self._paths()
        ]
        if others:
            self.log.warn(
                "the broker does not process {count} queue(s) of its store, which accept messages: {queues}",
                count=len(others),
                queues=", ".join(others[:5]),
            )

    def begin(self) -> None:
        """Process messages."""
        if self._processor is not None and not self._is_paused:
            self._processor.resume()

    async def _end(self) -> None:
        if self._recheck is not None:
            self._recheck.cancel()
            self._recheck = None
        if self._processor is not None:
            processor, self._processor = self._processor, None
            self._ending = processor
            await gatherResults(
                [Deferred.fromCoroutine(processor.stop()), Deferred.fromCoroutine(self._end_hooks())]
            )
            self._ending = None
        self._release_held()

    async def _end_hooks(self) -> None:
        if not await self._hooks.stop():
            self.log.warn("coroutines of the broker for sessions do not end; the broker stops without them")

    def end(self) -> Deferred[None]:
        """Finish the messages in process and the coroutines for sessions, and end."""
        return Deferred.fromCoroutine(self._end())

    # Called by the broker

    @property
    def is_prepared(self) -> bool:
        """Whether it is between L{prepare} and L{end}."""
        return self._processor is not None

    def others_ended(self) -> Deferred[None] | None:
        """See L{MessagesInProcess.others_ended<msmq.broker.in_process.MessagesInProcess.others_ended>}."""
        processor = self._processor or self._ending
        if processor is None:
            return None
        return processor.others_ended() or self._hooks.others_ended()

    def pause(self) -> None:
        """Process no further messages; they are accepted and stored."""
        self._is_paused = True
        if self._processor is not None:
            self._processor.pause()

    def resume(self) -> None:
        """Process messages again."""
        self._is_paused = False
        if self._processor is not None:
            if self._declared is None:
                self._follow_all()
            self._processor.resume()

    # Queues

    def _paths(self) -> set[str]:
        return set() if self._processor is None else set(self._processor.paths)

    def _follow_all(self) -> None:
        """Process every private queue that exists."""
        assert self.manager is not None and self._processor is not None, "it is prepared"
        for summary in self.manager.inspection.queues():
            if summary.type == "private" and not _is_reserved(summary.path):
                self._processor.add(summary.path, is_kept=False)

    def _follow_created(self, queue: Queue) -> None:
        """Process a private queue that was created by a message, an application or an operator."""
        if self._processor is not None and not _is_reserved(queue.definition.path):
            self._processor.add(queue_path(queue), is_kept=False)

    async def _declare(self, manager: QueueManagerService, declared: DeclaredQueue) -> None:
        queue = manager.model.find(parse_path_name(declared.path))
        if queue is None:
            await manager.create_queue(declared.path, **declared.properties)
            return
        wanted = declared.properties.get("transactional", False)
        if queue.definition.transactional is not wanted:
            is_so, should = ("", "not ") if queue.definition.transactional else ("not ", "")
            raise BrokerStartError(
                f"queue {quoted(declared.path)} of the store is {is_so}transactional, and the broker declares"
                f" it as {should}transactional: declare it as it is, or delete it with msmq queue delete"
            )

    def missing_queues(self, messages: Sequence[UserMessageView], address: str) -> Mapping[str, bool]:
        """See L{Intake.missing_queues<msmq.broker.sessions.Intake>}.

        Only peers whose unauthenticated messages are accepted cause queues to be created.
        """
        if self._declared is not None or self.manager is None or self._processor is None:
            return {}
        missing: dict[str, bool] = {}
        may_create = len(self._processor.paths) < ON_DEMAND and self.manager.trusts(address)
        model = self.manager.model
        own = (_NULL, model.identifier.bytes_le)
        for message in messages:
            if message.queue_manager_address not in own:
                continue
            queue = model.queue_for(message)
            if queue is not None:
                identifier = queue.definition.identifier
                if identifier not in self._known and not queue.is_system:
                    self._known.add(identifier)
                    if not _is_reserved(queue.definition.path):
                        self._processor.add(queue_path(queue), is_kept=False)
            elif may_create and (path := self._path_on_demand(message)) is not None:
                missing.setdefault(path, message.is_transactional)
        return missing

    def _path_on_demand(self, message: UserMessageView) -> str | None:
        """The path of the private queue that a direct name of ours means; C{None} for other names."""
        assert self.manager is not None, "it is prepared"
        destination = message.destination
        text = getattr(destination, "text", None)
        if text is None:
            return None
        try:
            name = DirectFormatName.from_wire_text(text)
        except MQError:
            return None
        if (
            not name.is_private
            or name.subqueue is not None
            or name.suffix is not QueueSuffix.NONE
            or not self.manager.model.is_local(name)
            or _is_reserved(name.queue)
        ):
            return None
        return f".\\{name.queue_path}"

    async def create_queues(self, missing: Mapping[str, bool]) -> None:
        """See L{Intake.create_queues<msmq.broker.sessions.Intake>}."""
        # One session at a time: another one may be creating the same queue, and its name is taken before the
        # queue is there for messages.
        await self._creating.run(self._create_queues, missing)

    async def _create_queues(self, missing: Mapping[str, bool]) -> None:
        for path, is_transactional in missing.items():
            if self.manager is None or self._processor is None or len(self._processor.paths) >= ON_DEMAND:
                return
            try:
                await self.manager.create_queue(path, transactional=is_transactional)
            except MQError as error:
                if error.status is not Status.MQ_ERROR_QUEUE_EXISTS:
                    # The message is refused as one for a queue that does not exist.
                    self.log.warn("a queue was not created for a message: {error}", error=error)
                continue
            if self._processor is not None:
                self._processor.add(path, is_kept=False)

    # Back-pressure

    @property
    def is_full(self) -> bool:
        """Whether as many messages wait as may."""
        return self._waiting() >= self._backlog

    def _waiting(self) -> int:
        """The messages in the queues of the broker, those in process included."""
        if self._processor is None or self.manager is None:
            return 0
        return sum(
            queue.message_count for queue in map(self._queue, self._processor.paths) if queue is not None
        )

    def _queue(self, path: str) -> Queue | None:
        """The queue of a path; C{None} if it was deleted."""
        queue = self._found.get(path)
        if (queue is None or queue.is_deleted) and self.manager is not None:
            queue = self._found[path] = self.manager.model.find(parse_path_name(path))
        return queue

    def capacity(self) -> Deferred[bool]:
        """Fires with true when half of the messages that may wait are processed, or the broker ends, and with
        false after L{LONGEST_HOLD} seconds.
        """
        held: Deferred[bool] = Deferred()
        if self._processor is None:
            held.callback(True)
            return held
        self._held[held] = self._reactor.seconds() + LONGEST_HOLD
        if self._recheck is None:
            self._recheck = self._reactor.callLater(RECHECK_INTERVAL, self._release_overdue)
        return held

    def _release_overdue(self) -> None:
        self._recheck = None
        self._finished()
        now = self._reactor.seconds()
        for held, until in list(self._held.items()):
            if now >= until:
                del self._held[held]
                held.callback(False)
        if self._held:
            self._recheck = self._reactor.callLater(RECHECK_INTERVAL, self._release_overdue)

    def _finished(self) -> None:
        """A message has left its queue."""
        if self._held and self._waiting() <= self._backlog // 2:
            self._release_held()

    def _release_held(self) -> None:
        held, self._held = self._held, {}
        for each in held:
            each.callback(True)

    # Sessions

    def opened(self, session: ISession) -> None:
        """See L{Intake.opened<msmq.broker.sessions.Intake>}."""
        self._follow(session, self._broker.session_opened, session, closes=True)

    def closed(self, session: ISession, reason: CloseReason) -> None:
        """See L{Intake.closed<msmq.broker.sessions.Intake>}."""
        self._follow(session, self._broker.session_closed, session, reason, closes=False)

    def _follow(self, session: ISession, hook: Callable[..., Any], *args: object, closes: bool) -> None:
        """Run a coroutine for a session, after the one before."""
        before, hooks = self._events.get(session), self._hooks

        async def run() -> None:
            processing = hooks.begin()
            try:
                if before is not None:
                    await before
                processing.running = call_slow_hook(hook, *args)
                if processing.running is not None:
                    await processing.running
            except Exception as error:
                if isinstance(error, CancelledError) and not self.is_prepared:
                    # The broker has stopped.
                    return
                self.log.failure("a coroutine of the broker for a session failed")
                if closes:
                    session.close(CloseReason.INTERNAL_ERROR)
            finally:
                hooks.end(processing)

        following = self._events[session] = Deferred.fromCoroutine(run())
        following.addBoth(self._followed, session, following)

    def _followed(self, _: object, session: ISession, following: Deferred[None]) -> None:
        if self._events.get(session) is following:
            del self._events[session]


def _is_reserved(path: str) -> bool:
    """Whether it is the name of a queue of the protocol itself, such as order_queue$."""
    return path.endswith("$") or path.rpartition("\\")[2].lower().startswith("connector-")
