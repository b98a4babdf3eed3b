"""Enumerations of directory attributes and results. [MS-MQDMPR] 3.1.1."""

from __future__ import annotations

import enum
from typing import Final

from msmq.errors import MsmqError
from msmq.structures.status import MQError, Status


class DirectoryOperationResult(enum.Enum):
    """DirectoryOperationResult of a directory operation. [MS-MQDMPR] 3.1.1.17."""

    SUCCESS = "Success"
    GENERIC_ERROR = "GenericError"
    DIRECTORY_NOT_CONNECTED = "DirectoryNotConnected"
    OBJECT_NOT_FOUND = "ObjectNotFound"
    ATTRIBUTE_NOT_FOUND = "AttributeNotFound"
    END_OF_DATA = "EndOfData"
    OBJECT_ALREADY_EXISTS = "ObjectAlreadyExists"


class DirectoryError(MsmqError):
    """A directory operation failed.

    @ivar result: the result code of the documents; never C{SUCCESS}.
    @ivar detail: why, in words.
    """

    def __init__(self, result: DirectoryOperationResult, detail: str) -> None:
        super().__init__(result, detail)
        self.result = result
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.result.value}: {self.detail}"


class OperatingSystemType(enum.Enum):
    """OperatingSystemType; ours is C{FOREIGN}, which is not Windows. [MS-MQDMPR] 3.1.1.1."""

    FOREIGN = "Foreign"
    WIN95 = "Win95"
    WIN_CLIENT = "WinClient"
    WIN_SERVER = "WinServer"
    WIN_ENT = "WinEnt"
    OTHER = "Other"


class DirectoryServerType(enum.Enum):
    """DirectoryServerType; meaningful only if DirectoryServer is set. [MS-MQDMPR] 3.1.1.1."""

    STANDALONE = "Standalone"
    BACKUP_SITE_CONTROLLER = "BackupSiteController"
    PRIMARY_SITE_CONTROLLER = "PrimarySiteController"
    PRIMARY_ENTERPRISE_CONTROLLER = "PrimaryEnterpriseController"


class QueueManagerState(enum.Enum):
    """QueueManagerState. [MS-MQDMPR] 3.1.1.1."""

    STOPPED = "Stopped"
    INITIALIZING = "Initializing"
    READY = "Ready"
    STOPPING = "Stopping"


class QueueScope(enum.Enum):
    """Scope of a queue; ours are always C{ENTERPRISE}. [MS-MQDMPR] 3.1.1.2."""

    SITE = "Site"
    ENTERPRISE = "Enterprise"


class ChangeOperation(enum.Enum):
    """iOperation of a change notification. [MS-MQCN] 3.3.4.1."""

    QUEUE_CREATION = "QueueCreation"
    QUEUE_UPDATE = "QueueUpdate"
    QUEUE_DELETION = "QueueDeletion"
    QUEUE_MANAGER_UPDATE = "QueueManagerUpdate"


_STATUS: Final = {
    DirectoryOperationResult.SUCCESS: Status.MQ_OK,
    DirectoryOperationResult.DIRECTORY_NOT_CONNECTED: Status.MQ_ERROR_NO_DS,
    DirectoryOperationResult.OBJECT_NOT_FOUND: Status.MQ_ERROR_QUEUE_NOT_FOUND,
    DirectoryOperationResult.OBJECT_ALREADY_EXISTS: Status.MQ_ERROR_QUEUE_EXISTS,
}
_MACHINE_STATUS: Final = {
    DirectoryOperationResult.OBJECT_NOT_FOUND: Status.MQ_ERROR_MACHINE_NOT_FOUND,
    DirectoryOperationResult.OBJECT_ALREADY_EXISTS: Status.MQ_ERROR_MACHINE_EXISTS,
}


def status_of(result: DirectoryOperationResult, *, of_queue_manager: bool = False) -> Status:
    """Convert a DirectoryOperationResult to a status for applications. [MS-MQMQ] 2.4.

    @param of_queue_manager: the operation concerned a QueueManager and not a Queue.
    """
    status = _MACHINE_STATUS.get(result) if of_queue_manager else None
    return status or _STATUS.get(result, Status.MQ_ERROR_DS_ERROR)


def refusal(result: DirectoryOperationResult, detail: str, *, of_queue_manager: bool = False) -> MQError:
    """Create the application's error for a failed directory operation, for the caller to raise."""
    return MQError(status_of(result, of_queue_manager=of_queue_manager), f"{detail} ({result.value})")
