"""Resolves destination names to queues, with the directory's help. [MS-MQDMPR] 3.1.7.1.27 and 3.1.7.3.8."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from uuid import UUID

import attrs

from msmq.interfaces.clock import IClock
from msmq.manager.applications.targets import SendTarget
from msmq.manager.membership.public_names import PublicName, PublicNames, UnknownPublicQueue
from msmq.queues.arriving.packet_builder import PacketBuilder, list_of_destinations
from msmq.queues.arriving.send_destination import (
    DestinationFacts,
    DestinationRefusal,
    DirectDestination,
    OutgoingDestination,
    PublicDestination,
    decide_destination,
)
from msmq.queues.model import QueueManagerModel
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import Queue
from msmq.queues.reading.queue_lookup import expand
from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.names.format_name import (
    DistributionListFormatName,
    FormatName,
    PrivateFormatName,
    PublicFormatName,
    parse_format_names,
)
from msmq.structures.names.name_text import check_name, is_format_name
from msmq.structures.names.path_name import PathName, parse_path_name
from msmq.structures.status import MQError, Status
from msmq.wire.guid import NULL_GUID

_MOST_FOUND: Final = 1024
"""Limit on names whose queues are kept."""


class Destinations:
    """Resolves the names that messages are sent to.

    A queue of another queue manager resolves to its outgoing queue, which is created if there is none.
    Names that need the directory have to be looked up first: L{resolve} raises L{UnknownPublicQueue},
    L{learn} queries the directory, and L{find} does both.

    @param names: public queues of other queue managers, and distribution lists; C{None} in workgroup mode,
        where such a name is refused.
    """

    def __init__(self, model: QueueManagerModel, clock: IClock, names: PublicNames | None) -> None:
        self._model = model
        self._clock = clock
        self._names = names
        # By text, the results that had one outgoing queue.
        self._found: dict[str, SendTarget] = {}

    async def find(self, text: str) -> list[SendTarget]:
        """As L{resolve}, with directory queries where needed.

        @raise MQError: as L{resolve}, and L{learn}.
        """
        learned: set[PublicName] | None = None
        while True:
            try:
                return self.resolve(text)
            except UnknownPublicQueue as unknown:
                learned = await self.learn(unknown, learned)

    async def learn(
        self, unknown: UnknownPublicQueue, learned: set[PublicName] | None = None
    ) -> set[PublicName]:
        """Look up a public queue or a distribution list in the directory.

        @param learned: the names of the same destination that were looked up before.
        @return: these, and this one.
        @raise MQError: as L{PublicNames.learn}; MQ_ERROR_NO_DS without a directory;
            MQ_ERROR_INSUFFICIENT_RESOURCES if this name was looked up and is not known any more: the
            destination has more names than are kept, and looking them up would not end.
        """
        if self._names is None:
            raise unknown
        if learned is None:
            learned = set()
        elif unknown.name in learned:
            raise MQError(
                Status.MQ_ERROR_INSUFFICIENT_RESOURCES,
                f"the destination with {unknown.name} has too many names that are looked up in the directory;"
                " send to some of them at a time",
            )
        await self._names.learn(unknown.name)
        learned.add(unknown.name)
        return learned

    def resolve(self, text: str) -> list[SendTarget]:
        """The queues of a format name, of several with commas, or of a local path.

        Several names are in alphabetical order, each queue once (reading 58).

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND for a local queue that does not exist;
            MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION for a kind of name that cannot be a destination;
            MQ_ERROR_NO_DS for a public name without a directory; or that a name is malformed.
        @raise UnknownPublicQueue: a public queue of another queue manager, or the members of a distribution
        list, have to be looked up first.
        """
        check_name(text)
        if (known := self._known(text)) is not None:
            return [known]
        targets = self.all(self._expanded(_parse_destinations(text)))
        first = targets[0]
        if (
            len(targets) == 1
            and isinstance(first.queue, OutgoingQueue)
            and isinstance(first.name, DirectFormatName | PrivateFormatName)
        ):
            if len(self._found) >= _MOST_FOUND:
                self._found.clear()
            self._found[text] = first
        return targets

    def _known(self, text: str) -> SendTarget | None:
        """The result of an earlier L{resolve}, if it is an outgoing queue still."""
        if (target := self._found.get(text)) is None:
            return None
        model, queue = self._model, target.queue
        if (
            not isinstance(queue, OutgoingQueue)
            or model.collection.find_outgoing(target.name) is not queue
            or model.is_local(target.name)
            or target.builder.time_to_reach_queue != model.time_to_reach_queue
        ):
            del self._found[text]
            return None
        # As if it had been looked up: it is used from now on.
        queue.idle_since = None
        return target

    def all(self, names: Iterable[FormatName | PathName]) -> list[SendTarget]:
        """The queues of these names, each once. [MS-MQDMPR] 3.1.7.1.27.

        If there are several, each message lists them, and each copy has its own as
        DestinationQueueFormatName.

        @raise MQError: as L{resolve}.
        """
        found: dict[Queue, SendTarget] = {}
        for name in names:
            target = self.one(name)
            found.setdefault(target.queue, target)
        targets = list(found.values())
        if len(targets) == 1:
            return targets
        destinations = _list_of_destinations(tuple(target.name for target in targets))
        return [
            attrs.evolve(target, builder=self._builder(target.name, target.owner, destinations))
            for target in targets
        ]

    def names(self, text: str) -> list[FormatName]:
        """The format names of L{resolve}, whose queues exist; the directory is not queried for public ones.

        @raise MQError: as L{resolve}.
        @raise UnknownPublicQueue: the format name of a public queue, or the members of a distribution list,
        have to be looked up first.
        """
        model = self._model
        found: dict[FormatName, None] = {}
        for name in self._expanded(_parse_destinations(text)):
            if isinstance(name, PublicFormatName) and self._names is not None and model.find(name) is None:
                queue: Queue = model.outgoing(name, self._clock.now())
            else:
                queue = self.one(name).queue
            found[model.format_name(queue)] = None
        return list(found)

    def one(self, name: FormatName | PathName) -> SendTarget:
        """The queue of one name.

        @raise MQError: as L{resolve}.
        """
        model = self._model
        queue = model.find(name)
        facts = DestinationFacts(
            is_local=model.is_local(name),
            exists=queue is not None,
            is_system=queue is not None and queue.is_system,
            has_directory=self._names is not None,
        )
        match decide_destination(name, facts):
            case DestinationRefusal(status, reason):
                raise MQError(status, reason)
            case DirectDestination(direct):
                return self.one(direct)
            case PublicDestination(public) if self._names is not None:
                return self._public(public, self._names)
            case OutgoingDestination(remote):
                outgoing = model.outgoing(remote, self._clock.now())
                owner = model.identifier
                return SendTarget(remote, outgoing, self._builder(remote, owner), False, owner)
        if queue is None:
            raise MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"queue {name} does not exist")
        own = model.format_name(queue) if isinstance(name, PathName) else name
        return SendTarget(own, queue, self._builder(own, model.identifier), True, model.identifier)

    def _public(self, name: PublicFormatName | PathName, names: PublicNames) -> SendTarget:
        """A public queue of another queue manager, whose GUID is written into the packets for it."""
        found = names.find(name)
        queue = self._model.outgoing(found.name, self._clock.now(), base_priority=found.base_priority)
        if queue.definition.base_priority != found.base_priority:
            queue.definition = attrs.evolve(queue.definition, base_priority=found.base_priority)
        return SendTarget(found.name, queue, self._builder(found.name, found.owner), False, found.owner)

    def unplaced(self, name: FormatName) -> PacketBuilder:
        """Builds packets for a public queue whose owner is not known yet; it is set when they leave."""
        return self._builder(name, NULL_GUID)

    def _expanded(self, names: tuple[FormatName | PathName, ...]) -> tuple[FormatName | PathName, ...]:
        """Expand Format Name: replace distribution lists by their queues. [MS-MQDMPR] 3.1.7.3.8.

        @raise MQError: MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION without a directory, which knows the
            members.
        """
        found: list[FormatName] = []
        is_list = False
        for name in names:
            if isinstance(name, PathName):
                return names
            if isinstance(name, DistributionListFormatName) and self._names is not None:
                found += self._names.members(name)
                is_list = True
            else:
                found.append(name)
        return expand(found) if is_list or len(found) > 1 else names

    def _builder(self, name: FormatName, owner: UUID, destinations: bytes = b"") -> PacketBuilder:
        return _built(name, self._model.identifier, owner, destinations, self._model.time_to_reach_queue)


@lru_cache(maxsize=1024)
def _parse_destinations(text: str) -> tuple[FormatName | PathName, ...]:
    """Cached, since applications send to the same few names repeatedly."""
    if not is_format_name(text):
        return (parse_path_name(text),)
    names = parse_format_names(text)
    if len(names) > 1 and not any(isinstance(name, DistributionListFormatName) for name in names):
        return expand(names)
    return names


@lru_cache(maxsize=1024)
def _built(
    name: FormatName, source: UUID, owner: UUID, destinations: bytes, time_to_reach_queue: int
) -> PacketBuilder:
    """The common part of packets to one destination is built once."""
    return PacketBuilder(
        name,
        source=source,
        destination_queue_manager=owner,
        destinations=destinations,
        time_to_reach_queue=time_to_reach_queue,
    )


@lru_cache(maxsize=64)
def _list_of_destinations(names: tuple[FormatName, ...]) -> bytes:
    return list_of_destinations(names)
