"""[MS-MQDMPR] 3.1.7.1.5 and [MS-MQQB] 3.1.7.4: public queues of other queue managers, by the directory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import ClassVar, Final
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from msmq.interfaces.clock import IClock
from msmq.manager.routing import Runner
from msmq.queues.directory.access import DirectoryAccess
from msmq.queues.directory.enumerations import DirectoryOperationResult
from msmq.queues.directory.objects import QueueManagerObject, QueueObject
from msmq.queues.directory.requests import Outcome
from msmq.queues.directory.selecting import AttributeFilter, equals
from msmq.queues.model import PublicQueue
from msmq.structures.format_name import PublicFormatName
from msmq.structures.path_name import PathName, parse_path_name
from msmq.structures.status import MQError, Status

REMEMBERED: Final = 10_000
"""Public queues of which it is remembered where they are."""

FRESH: Final = 600.0
"""Seconds after which the directory is asked again where a queue is, when somebody opens it anew."""

RETRY: Final = 60.0
"""Seconds after which a queue for which messages wait is looked for again."""


class UnknownPublicQueue(MQError):
    """A public queue that was not looked for yet; see L{PublicNames.learn}.

    @ivar name: what it was called.
    """

    def __init__(self, name: PublicFormatName | PathName) -> None:
        super().__init__(Status.MQ_ERROR_NO_DS, f"{name} is a public queue that was not looked for yet")
        self.name = name


class PublicNames:
    """Remembers where the public queues of others are.

    @ivar on_found: told of a public queue that was looked for, when it was found, or that is somewhere else
        than it was; and when it was not found, some time later, so that whoever still wants it asks again.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, access: DirectoryAccess, run: Runner, clock: IClock, reactor: IReactorTime) -> None:
        """Ask a directory.

        @param run: runs the procedures of C{access}.
        """
        self._access = access
        self._run = run
        self._clock = clock
        self._reactor = reactor
        self._retries: dict[UUID, IDelayedCall] = {}
        self._is_stopped = False
        self._known: OrderedDict[UUID, tuple[PublicQueue, float]] = OrderedDict()
        self._paths: dict[str, UUID] = {}
        self._asked: set[UUID] = set()
        self.on_found: Callable[[UUID], None] = lambda identifier: None

    def owner_of(self, identifier: UUID) -> UUID | None:
        """The queue manager of a public queue; if that is not known it is looked for."""
        known = self._known.get(identifier)
        if known is not None:
            return known[0].owner
        if identifier not in self._asked and identifier not in self._retries and not self._is_stopped:
            self._asked.add(identifier)
            Deferred.fromCoroutine(self._look_for(identifier)).addErrback(
                lambda failure: self.log.failure("a public queue could not be looked for", failure)
            )
        known = self._known.get(identifier)
        return None if known is None else known[0].owner

    def find(self, name: PublicFormatName | PathName) -> PublicQueue:
        """A public queue, by its format name or its path.

        @raise UnknownPublicQueue: it has to be learned first, or again.
        """
        identifier = name.queue if isinstance(name, PublicFormatName) else self._paths.get(_key(name))
        known = None if identifier is None else self._known.get(identifier)
        if known is None or known[1] < self._clock.now().monotonic:
            raise UnknownPublicQueue(name)
        return known[0]

    async def learn(self, name: PublicFormatName | PathName) -> None:
        """Ask the directory where a public queue is.

        What was known before holds as long as the directory cannot be reached.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, MQ_ERROR_NO_DS if the directory cannot be reached.
        """
        wanted = (
            equals("identifier", name.queue)
            if isinstance(name, PublicFormatName)
            else equals("pathname", f"{name.computer}\\{name.queue_path}")
        )
        await self._read(wanted, str(name), name if isinstance(name, PathName) else None)

    def _retry(self, identifier: UUID) -> None:
        del self._retries[identifier]
        self.on_found(identifier)

    def stop(self) -> None:
        """Look for nothing more."""
        self._is_stopped = True
        for call in self._retries.values():
            call.cancel()
        self._retries.clear()

    async def _look_for(self, identifier: UUID) -> None:
        try:
            await self._read(equals("identifier", identifier), str(PublicFormatName(identifier)), None)
        except MQError as error:
            self.log.warn("nobody knows where a public queue is: {error}", error=error)
            if not self._is_stopped:
                self._retries[identifier] = self._reactor.callLater(RETRY, self._retry, identifier)
            return
        finally:
            self._asked.discard(identifier)
        self.on_found(identifier)

    async def _read(self, wanted: AttributeFilter, shown: str, path: PathName | None) -> None:
        outcome = await self._run(
            self._access.read_directory(QueueObject, [wanted], ("identifier", "pathname", "base_priority"))
        )
        if not outcome.succeeded:
            if self._is_away(outcome) and self._renew(wanted.value, path):
                return
            raise self._refused(outcome, shown)
        identifier: UUID = outcome.value["identifier"]
        computer = parse_path_name(outcome.value["pathname"], lenient=True).computer
        host = await self._run(
            self._access.read_directory(
                QueueManagerObject, [equals("computer_name", computer)], ("identifier",)
            )
        )
        if not host.succeeded:
            raise self._refused(host, f"{shown} is on {computer}, and that queue manager")
        name = PublicFormatName(identifier)
        self._remember(PublicQueue(name, host.value["identifier"], outcome.value["base_priority"]), path)

    def _is_away(self, outcome: Outcome) -> bool:
        """Whether the directory was asked at all; while it is away only what is our own is found."""
        return outcome.is_disconnected or self._access.local.directory_offline

    def _refused(self, outcome: Outcome, what: str) -> MQError:
        if self._is_away(outcome):
            return MQError(Status.MQ_ERROR_NO_DS, f"{what}: {outcome.detail or 'the directory is away'}")
        if outcome.result is DirectoryOperationResult.OBJECT_NOT_FOUND:
            return MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"{what} is not in the directory")
        return MQError(Status.MQ_ERROR_DS_ERROR, f"{what}: {outcome.detail or 'the directory refuses'}")

    def _renew(self, value: object, path: PathName | None) -> bool:
        identifier = (
            value if isinstance(value, UUID) else None if path is None else self._paths.get(_key(path))
        )
        known = None if identifier is None else self._known.get(identifier)
        if known is None:
            return False
        self._remember(known[0], path)
        return True

    def _remember(self, found: PublicQueue, path: PathName | None) -> None:
        identifier = found.name.queue
        before = self._known.get(identifier)
        self._known[identifier] = found, self._clock.now().monotonic + FRESH
        self._known.move_to_end(identifier)
        if path is not None:
            self._paths[_key(path)] = identifier
        if len(self._known) > REMEMBERED:
            oldest, _ = self._known.popitem(last=False)
            self._paths = {key: known for key, known in self._paths.items() if known != oldest}
        if before is not None and before[0].owner != found.owner:
            self.on_found(identifier)


def _key(path: PathName) -> str:
    return f"{path.computer}\\{path.queue_path}".casefold()
