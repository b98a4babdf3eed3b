"""Quotas of the queues in a store, as rows."""

from __future__ import annotations

from collections.abc import Iterator

from msmq.persistence.definition import UNLIMITED, QueueDefinition
from msmq.pipeline.reading.opening import open_store
from msmq.pipeline.reading.streams import USED, topic_name

_KILOBYTE = 1024


def queue_quotas(location: str) -> list[tuple[str, bool, int | None]]:
    r"""The queues of applications in a store: path (C{.\private$\orders}), whether it is the journal, quota.

    A quota is in bytes; C{None} is no limit.

    @param location: a data directory, the file of a store, or C{postgresql://...}.
    @raise StorageError: there is no store, or it cannot be read.
    """
    store = open_store(location)
    try:
        return [quota for definition in store.queues() for quota in _quotas_of(definition)]
    finally:
        store.close()


def _quotas_of(definition: QueueDefinition) -> Iterator[tuple[str, bool, int | None]]:
    if definition.type not in USED or definition.parent is not None:
        return
    path = topic_name(definition)
    for is_journal, kilobytes in ((False, definition.quota), (True, definition.journal_quota)):
        yield path, is_journal, None if kilobytes == UNLIMITED else kilobytes * _KILOBYTE
