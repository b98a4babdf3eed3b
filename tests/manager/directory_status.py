"""The directory, as the status of a queue manager has it."""

from __future__ import annotations

from msmq.interfaces.manager.queue_manager import IQueueManager
from msmq.interfaces.manager.summaries import DirectoryStatus


def directory_status(manager: IQueueManager) -> DirectoryStatus:
    """The status of a queue manager with a directory."""
    status = manager.inspection.status().directory
    assert status is not None
    return status
