"""Look-up of remote public queues and distribution lists. [MS-MQDMPR] 3.1.7.1.5, [MS-MQQB] 3.1.7.4."""

from __future__ import annotations

from collections import OrderedDict
from typing import ClassVar, Final, Protocol, TypeAlias
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from msmq.interfaces.clock import IClock
from msmq.line_limit import LineLimit
from msmq.manager.membership.directory_router import ProcedureRunner
from msmq.membership.access import DirectoryAccess
from msmq.membership.enumerations import DirectoryOperationResult
from msmq.membership.names import UnresolvedList, expand_format_name
from msmq.membership.objects import QueueManagerObject, QueueObject
from msmq.membership.queries import AttributeFilter, equals
from msmq.membership.requests import Outcome
from msmq.structures.names.format_name import DistributionListFormatName, FormatName, PublicFormatName
from msmq.structures.names.path_name import PathName, parse_path_name
from msmq.structures.status import MQError, Status
from msmq.wire.guid import NULL_GUID

REMEMBERED: Final = 10_000
"""Limit on cached locations of public queues."""

REMEMBERED_LISTS: Final = 1000
"""Limit on cached distribution lists."""

FRESH: Final = 600.0
"""Seconds after which opening a queue again queries the directory for its owner again."""

RETRY: Final = 60.0
"""Seconds after which a queue with pending messages is looked up again."""


LOOK_UPS_AT_ONCE: Final = 64
LOOK_UPS_APART: Final = 0.05
"""The number of queues that are looked up in one batch when the directory is back, and the seconds between
batches."""

PublicName: TypeAlias = PublicFormatName | DistributionListFormatName | PathName
"""The kind of a directory look-up."""


LINES: Final = 2
"""Lines of the log in a minute about queues that the directory could not be asked for."""


class UnknownPublicQueue(MQError):
    """A public queue, or a distribution list, that was not looked up yet; see L{PublicNames.learn}.

    @ivar name: its format name or path.
    """

    def __init__(self, name: PublicName) -> None:
        super().__init__(Status.MQ_ERROR_NO_DS, f"{name} was not looked up in the directory yet")
        self.name = name


@attrs.frozen
class PublicQueue:
    """A public queue of another queue manager, as far as it is known.

    @ivar owner: that queue manager; the null GUID while the directory is unreachable.
    @ivar base_priority: BasePriority, -32768 to 32767.
    """

    name: PublicFormatName
    owner: UUID
    base_priority: int = 0


class PublicQueueListener(Protocol):
    """Is notified of the public queues that messages wait for."""

    def owner_found(self, identifier: UUID) -> None:
        """A public queue was found, or has moved to another queue manager.

        It is also called some time after the directory did not find one, so that it is looked up again if
        needed.
        """


class PublicNames:
    """Caches the owners of remote public queues, and the members of distribution lists.

    A public queue that cannot be looked up, because the directory is unreachable, has no known owner, and
    messages for it wait (reading 21).
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        access: DirectoryAccess,
        run: ProcedureRunner,
        clock: IClock,
        reactor: IReactorTime,
        listener: PublicQueueListener,
    ) -> None:
        """Create the cache of a directory.

        @param run: runs the procedures of C{access}.
        """
        self._access = access
        self._run = run
        self._clock = clock
        self._reactor = reactor
        self._listener = listener
        self._lines = LineLimit.a_minute(LINES)
        self._retries: dict[UUID, IDelayedCall] = {}
        self._is_stopped = False
        self._known: OrderedDict[UUID, tuple[PublicQueue, float]] = OrderedDict()
        self._paths: dict[str, UUID] = {}
        self._lists: OrderedDict[DistributionListFormatName, tuple[tuple[FormatName, ...], float]] = (
            OrderedDict()
        )
        self._unplaced: dict[UUID, float] = {}
        self._asked: set[UUID] = set()

    def owner_of(self, identifier: UUID) -> UUID | None:
        """The queue manager of a public queue; if unknown, a look-up begins."""
        known = self._known.get(identifier)
        if known is not None:
            return known[0].owner
        if identifier not in self._asked and identifier not in self._retries and not self._is_stopped:
            self._asked.add(identifier)
            Deferred.fromCoroutine(self._look_for(identifier)).addErrback(
                lambda failure: self.log.failure("a public queue could not be looked up", failure)
            )
        known = self._known.get(identifier)
        return None if known is None else known[0].owner

    def find(self, name: PublicFormatName | PathName) -> PublicQueue:
        """A public queue, by its format name or its path.

        @raise UnknownPublicQueue: it has to be looked up first, or again.
        """
        identifier = name.queue if isinstance(name, PublicFormatName) else self._paths.get(_key(name))
        known = None if identifier is None else self._known.get(identifier)
        now = self._clock.now().monotonic
        if known is not None and known[1] >= now:
            return known[0]
        if isinstance(name, PublicFormatName) and self._unplaced.get(name.queue, -1.0) >= now:
            return PublicQueue(name, NULL_GUID)
        raise UnknownPublicQueue(name)

    def members(self, name: DistributionListFormatName) -> tuple[FormatName, ...]:
        """The members of a distribution list. [MS-MQDMPR] 3.1.7.3.8.

        @raise UnknownPublicQueue: it has to be looked up first, or again.
        """
        known = self._lists.get(name)
        if known is None or known[1] < self._clock.now().monotonic:
            raise UnknownPublicQueue(name)
        return known[0]

    async def learn(self, name: PublicName) -> None:
        """Query the directory for a public queue, or for the members of a distribution list.

        Cached data holds while the directory is unreachable; an unknown public queue is then looked up later.

        @raise MQError: MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION for a format name that is not in the
            directory, MQ_ERROR_QUEUE_NOT_FOUND for a path; MQ_ERROR_NO_DS for a path if the directory cannot
            be reached.
        """
        if isinstance(name, DistributionListFormatName):
            await self._expand(name)
            return
        wanted = (
            equals("identifier", name.queue)
            if isinstance(name, PublicFormatName)
            else equals("pathname", f"{name.computer}\\{name.queue_path}")
        )
        try:
            await self._read(wanted, str(name), name if isinstance(name, PathName) else None)
        except MQError as error:
            if error.status is not Status.MQ_ERROR_NO_DS or not isinstance(name, PublicFormatName):
                raise
            self._unplaced[name.queue] = self._clock.now().monotonic + RETRY
            if len(self._unplaced) > REMEMBERED:
                del self._unplaced[next(iter(self._unplaced))]

    async def _expand(self, name: DistributionListFormatName) -> None:
        known = self._lists.get(name)
        try:
            members = await self._run(expand_format_name(self._access, (name,)))
        except UnresolvedList as unresolved:
            if known is None or not unresolved.is_away:
                raise
            members = known[0]
        self._lists[name] = members, self._clock.now().monotonic + FRESH
        self._lists.move_to_end(name)
        if len(self._lists) > REMEMBERED_LISTS:
            self._lists.popitem(last=False)

    @property
    def is_waiting(self) -> bool:
        """Whether messages wait for a public queue that is still to be found in the directory."""
        return bool(self._retries)

    def look_again(self) -> None:
        """The directory is back: look up every queue with pending messages, in batches."""
        self._unplaced.clear()
        for count, call in enumerate(self._retries.values()):
            call.reset(count // LOOK_UPS_AT_ONCE * LOOK_UPS_APART)

    def _retry(self, identifier: UUID) -> None:
        del self._retries[identifier]
        self._listener.owner_found(identifier)

    def stop(self) -> None:
        """Stop all look-ups."""
        self._is_stopped = True
        for call in self._retries.values():
            call.cancel()
        self._retries.clear()

    async def _look_for(self, identifier: UUID) -> None:
        try:
            await self._read(equals("identifier", identifier), str(PublicFormatName(identifier)), None)
        except MQError as error:
            if (others := self._lines.take(self._clock.now())) is not None:
                self.log.warn(
                    "the owner of a public queue was not found: {error}{others}", error=error, others=others
                )
            if not self._is_stopped:
                self._retries[identifier] = self._reactor.callLater(RETRY, self._retry, identifier)
            return
        finally:
            self._asked.discard(identifier)
        self._listener.owner_found(identifier)

    async def _read(self, wanted: AttributeFilter, shown: str, path: PathName | None) -> None:
        outcome = await self._run(
            self._access.read_directory(QueueObject, [wanted], ("identifier", "pathname", "base_priority"))
        )
        if not outcome.succeeded:
            if self._is_away(outcome) and self._renew(wanted.value, path):
                return
            refused = self._refused(outcome, shown)
            if refused.status is Status.MQ_ERROR_QUEUE_NOT_FOUND and path is None:
                raise MQError(Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, str(refused))
            raise refused
        identifier: UUID = outcome.value["identifier"]
        computer = parse_path_name(outcome.value["pathname"], lenient=True).computer
        if self._access.local.is_own_name(computer):
            raise MQError(
                Status.MQ_ERROR_QUEUE_NOT_FOUND,
                f"the directory assigns {shown} to this queue manager, which has no such queue",
            )
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
        """Whether the directory was unreachable, so that only local queues were found."""
        return outcome.is_disconnected or self._access.local.directory_offline

    def _refused(self, outcome: Outcome, what: str) -> MQError:
        if self._is_away(outcome):
            return MQError(
                Status.MQ_ERROR_NO_DS, f"{what}: {outcome.detail or 'the directory is unreachable'}"
            )
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
        self._unplaced.pop(identifier, None)
        self._known[identifier] = found, self._clock.now().monotonic + FRESH
        self._known.move_to_end(identifier)
        if path is not None:
            self._paths[_key(path)] = identifier
        if len(self._known) > REMEMBERED:
            oldest, _ = self._known.popitem(last=False)
            self._paths = {key: known for key, known in self._paths.items() if known != oldest}
        if before is not None and before[0].owner != found.owner:
            self._listener.owner_found(identifier)


def _key(path: PathName) -> str:
    return f"{path.computer}\\{path.queue_path}".casefold()
