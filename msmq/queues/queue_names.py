"""Resolution of format names and path names to local queues."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs

from msmq.persistence.definition import QueueType
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import Queue
from msmq.structures.names.direct_format_name import DirectFormatName, DirectProtocol
from msmq.structures.names.format_name import (
    ConnectorFormatName,
    FormatName,
    MachineFormatName,
    PrivateFormatName,
    PublicFormatName,
)
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.names.path_name import PathKind, PathName
from msmq.structures.names.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
)
from msmq.structures.status import MQError, Status
from msmq.wire.guid import NULL_GUID

if TYPE_CHECKING:
    from msmq.structures.packet.user_message_view import UserMessageView

ALWAYS_LOCAL: Final = frozenset({".", "localhost"})
"""The computer names that always mean the local computer."""

SYSTEM_PATHS: Final = frozenset({"private$\\order_queue$", "private$\\notify_queue$"})
"""The names of private queues that applications can neither create nor open. [MS-MQDMPR] 3.1.3."""

_CONNECTOR: Final = "private$\\connector-"

REMEMBERED_DESTINATIONS: Final = 4096
"""Limit on the cached spellings of destinations, since peers choose them."""


def connector_path(name: ConnectorFormatName) -> str:
    """The path of the private queue that serves as a connector queue."""
    suffix = "-xactonly" if name.is_transactional else ""
    return f"{_CONNECTOR}{name.network}{suffix}"


def is_connector_path(path: str) -> bool:
    """Whether a private queue of this path serves as a connector queue."""
    return path.lower().startswith(_CONNECTOR)


def one_of(addresses: Collection[str]) -> Callable[[str], bool]:
    """Whether an IP address is one of these, in any spelling."""
    values = {ipaddress.ip_address(address) for address in addresses}
    return lambda address: ipaddress.ip_address(address) in values


class QueueNames:
    """The QueueCollection ([MS-MQDMPR] 3.1.1.1) by every name that a queue has."""

    def __init__(
        self, identifier: UUID, computer_names: Collection[str], is_own_address: Callable[[str], bool]
    ) -> None:
        self._identifier = identifier
        self._computers = ALWAYS_LOCAL | {name.lower() for name in computer_names}
        self.computer_name = next(iter(computer_names), ".")
        self._is_own_address = is_own_address
        self._by_path: dict[str, Queue] = {}
        self._by_number: dict[int, Queue] = {}
        self._by_identifier: dict[UUID, Queue] = {}
        self._system: dict[QueueSuffix, Queue] = {}
        self._reserved: set[str] = set()
        self._destinations: dict[bytes, Queue] = {}

    def queues(self) -> Iterator[Queue]:
        """All except journals, subqueues and system queues, in the order of their addition."""
        return iter(self._by_path.values())

    @property
    def queue_count(self) -> int:
        """The number of L{queues}."""
        return len(self._by_path)

    def system_queues(self) -> Iterator[Queue]:
        """The system queues."""
        return iter(self._system.values())

    def add_system(self, suffix: QueueSuffix, queue: Queue) -> None:
        """Register a system queue."""
        self._system[suffix] = queue

    def path_to_create(self, name: PathName) -> str:
        """The path of a private queue that can be created.

        @raise MQError: it cannot; the status is the reason.
        """
        if not self.is_local(name):
            raise _illegal(name, f"{name.computer} is not this computer")
        if name.kind is PathKind.PUBLIC:
            raise MQError(Status.MQ_ERROR_NO_DS, f"{name} is a public queue, which needs a directory")
        if name.kind is PathKind.SYSTEM or name.subqueue is not None or name.suffix is not QueueSuffix.NONE:
            raise _illegal(name, _why_not_created(name))
        path = name.queue_path
        if path.lower() in SYSTEM_PATHS:
            raise MQError(Status.MQ_ERROR_ACCESS_DENIED, f"{path} is reserved for the system")
        self.check_free(path)
        return path

    def check_free(self, path: str) -> None:
        """Check that no queue has this path.

        @raise MQError: MQ_ERROR_QUEUE_EXISTS.
        """
        if path.lower() in self._by_path or path.lower() in self._reserved:
            raise MQError(Status.MQ_ERROR_QUEUE_EXISTS, f"{path} exists, or is being created or deleted")

    def reserve(self, path: str) -> None:
        """Reserve this path for a queue that is being created."""
        self._reserved.add(path.lower())

    def free(self, path: str) -> None:
        """The opposite of L{reserve}."""
        self._reserved.discard(path.lower())

    def add(self, queue: Queue) -> None:
        """Register a queue."""
        definition = queue.definition
        self.free(definition.path)
        self._by_path[definition.path.lower()] = queue
        self._by_identifier[definition.identifier] = queue
        if definition.number:
            self._by_number[definition.number] = queue

    def remove(self, queue: Queue) -> None:
        """Remove a queue from the index."""
        definition = queue.definition
        del self._by_path[definition.path.lower()]
        del self._by_identifier[definition.identifier]
        self._by_number.pop(definition.number, None)
        self._destinations.clear()

    def is_local(self, name: FormatName | PathName) -> bool:
        """Whether the name refers to this queue manager."""
        match name:
            case PathName():
                return name.computer.lower() in self._computers
            case DirectFormatName(protocol=DirectProtocol.OS):
                return name.address.lower() in self._computers
            case DirectFormatName(protocol=DirectProtocol.TCP):
                return self._is_own_address(name.address.strip("[]"))
            case PrivateFormatName():
                return name.queue_manager == self._identifier
            case MachineFormatName():
                return name.queue_manager == self._identifier
            case PublicFormatName():
                return name.queue in self._by_identifier
            case ConnectorFormatName():
                return connector_path(name) in self._by_path
        return False

    def format_name(self, queue: Queue) -> FormatName:
        """The format name of a queue, which is valid on every queue manager."""
        if isinstance(queue, OutgoingQueue):
            return queue.destination
        if queue.parent is None and queue.is_system:
            return MachineFormatName(self._identifier, QueueSuffix(queue.definition.path[8:].upper()))
        main = (queue.parent or queue).definition
        is_public = main.type is QueueType.PUBLIC
        if queue.is_subqueue:
            name, _, subqueue = queue.definition.path.rpartition(";")
            return DirectFormatName(
                DirectProtocol.OS,
                self.computer_name,
                name if is_public else name.partition("\\")[2],
                not is_public,
                subqueue=subqueue,
            )
        suffix = QueueSuffix.JOURNAL if queue.is_system else QueueSuffix.NONE
        if is_public:
            return PublicFormatName(main.identifier, suffix)
        return PrivateFormatName(self._identifier, main.number, suffix)

    def direct_name(self, name: FormatName) -> FormatName:
        """The direct name of a private or public queue here, by which peers find it without a directory.

        @return: any other name, and that of a queue that does not exist, is returned unchanged.
        """
        if isinstance(name, PrivateFormatName) and name.queue_manager == NULL_GUID:
            name = attrs.evolve(name, queue_manager=self._identifier)
        if not isinstance(name, PrivateFormatName | PublicFormatName) or self.computer_name in ALWAYS_LOCAL:
            return name
        queue = self.find(name)
        if queue is None or queue.is_system:
            return name
        is_public, path = queue.definition.type is QueueType.PUBLIC, queue.definition.path
        return DirectFormatName(
            DirectProtocol.OS,
            self.computer_name,
            path if is_public else path.partition("\\")[2],
            not is_public,
        )

    def find(self, name: FormatName | PathName) -> Queue | None:
        """The local queue of any kind with this name."""
        if not self.is_local(name):
            return None
        if isinstance(name, MachineFormatName) or (
            isinstance(name, DirectFormatName | PathName) and is_system_name(name)
        ):
            return self._system.get(name.suffix)
        queue = self.find_main(name)
        if queue is None:
            return None
        if isinstance(name, PathName | DirectFormatName) and name.subqueue is not None:
            return queue.subqueues.get(name.subqueue.lower())
        if isinstance(name, ConnectorFormatName):
            return queue
        if isinstance(name, PathName | DirectFormatName | PrivateFormatName | PublicFormatName):
            return queue.journal if name.suffix is QueueSuffix.JOURNAL else queue
        return None

    def find_main(self, name: FormatName | PathName) -> Queue | None:
        """The local queue with this name, without its suffix or subqueue."""
        if not self.is_local(name):
            return None
        match name:
            case PathName() | DirectFormatName():
                return self._by_path.get(name.queue_path.lower())
            case PrivateFormatName():
                return self._by_number.get(name.number)
            case PublicFormatName():
                return self._by_identifier.get(name.queue)
            case ConnectorFormatName():
                return self._by_path.get(connector_path(name))
        return None

    def _find_by_path(self, name: PathName | DirectFormatName) -> Queue | None:
        if name.subqueue is not None or name.suffix is not QueueSuffix.NONE:
            return None
        return self._by_path.get(name.queue_path.lower())

    def queue_for(self, view: UserMessageView) -> Queue | None:
        """The local queue for the DestinationQueue of an arriving message."""
        key = view.destination_key
        queue = self._destinations.get(key)
        if queue is None:
            queue = self._look_up(view)
            if queue is not None:
                if len(self._destinations) >= REMEMBERED_DESTINATIONS:
                    self._destinations.clear()
                self._destinations[key] = queue
        return queue

    def _look_up(self, view: UserMessageView) -> Queue | None:
        match view.destination:
            case PrivateQueueFormatNameId() as private:
                return self._by_number.get(private.number)
            case PublicQueueFormatName() as public:
                return self._by_identifier.get(public.queue)
            case DirectQueueFormatName() as direct:
                try:
                    name = DirectFormatName.from_wire_text(direct.text)
                except MQError:
                    return None
                return self._find_by_path(name)
        return None


def is_system_name(name: PathName | DirectFormatName) -> bool:
    """Whether it is the name of a system queue."""
    return name.kind is PathKind.SYSTEM if isinstance(name, PathName) else name.is_system


def _why_not_created(name: PathName) -> str:
    if name.kind is PathKind.PRIVATE and name.subqueue is not None:
        return "the name of a queue cannot contain ';'; a subqueue is created when a message is moved to it"
    return "only private queues can be created"


def _illegal(name: PathName, problem: str) -> MQError:
    return MQError(Status.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME, f"{name}: {problem}")
