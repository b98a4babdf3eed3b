"""QueueManagerQuota and JournalQuota, of a configuration, a directory or an operator. [MS-MQDMPR] 3.1.1.1."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from struct import Struct, error
from typing import Final

import attrs

from msmq.persistence.changes import Change, PutState, RemoveState
from msmq.persistence.definition import UNLIMITED, quota_in_bytes
from msmq.queues.holdings import Storage
from msmq.structures.status import MQError, Status

_NAME: Final = "machine_quota/"
_VALUE: Final = Struct("<L")


class QuotaKind(enum.Enum):
    """Which messages a quota limits."""

    QUEUES = "quota"
    """All messages together."""
    JOURNALS = "journal_quota"
    """Those in journals and dead-letter queues together."""


@attrs.define(eq=False)
class MachineQuotas:
    """The quotas of all queues together, in kilobytes; 0xFFFFFFFF sets no limit.

    What an operator sets is stored, and wins over the directory and the configuration until the operator ends
    it; what the directory has for this queue manager wins over the configuration.
    A change is stored first and then takes effect.
    """

    _storage: Storage
    _configured: dict[QuotaKind, int]
    _chosen: dict[QuotaKind, int] = attrs.field(factory=dict, init=False)
    _followed: dict[QuotaKind, int] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._apply()

    def configure(self, quota: int, journal_quota: int) -> None:
        """Use other values of the configuration."""
        self._configured = {QuotaKind.QUEUES: quota, QuotaKind.JOURNALS: journal_quota}
        self._apply()

    def follow(self, quota: int | None, journal_quota: int | None) -> None:
        """Use the values that a directory has; C{None} where it has none."""
        found = {QuotaKind.QUEUES: quota, QuotaKind.JOURNALS: journal_quota}
        self._followed = {kind: value for kind, value in found.items() if value is not None}
        self._apply()

    def load(self, state: Mapping[str, bytes]) -> None:
        """Restore what an operator has set; an invalid value is left out."""
        for kind in QuotaKind:
            try:
                [self._chosen[kind]] = _VALUE.unpack(state[_name(kind)])
            except (KeyError, error):
                continue
        self._apply()

    def change(self, kind: QuotaKind, kilobytes: int | None) -> Change:
        """The change that sets a quota, or, with C{None}, ends that.

        @raise MQError: MQ_ERROR_ILLEGAL_PROPERTY_VALUE.
        """
        if kilobytes is None:
            return RemoveState(_name(kind))
        if not 0 <= kilobytes <= UNLIMITED:
            raise MQError(
                Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE,
                f"{kind.value} {kilobytes} is not within 0..0xFFFFFFFF",
            )
        return PutState(_name(kind), _VALUE.pack(kilobytes))

    def set(self, kind: QuotaKind, kilobytes: int | None) -> None:
        """The change is stored, and takes effect; messages beyond the quota stay."""
        if kilobytes is None:
            self._chosen.pop(kind, None)
        else:
            self._chosen[kind] = kilobytes
        self._apply()

    def source(self, kind: QuotaKind) -> str:
        """Where the value in use comes from: C{operator}, C{directory}, if that has another value than the
        configuration, or C{configuration}.
        """
        if kind in self._chosen:
            return "operator"
        return "configuration" if self._value(kind) == self._configured[kind] else "directory"

    def kilobytes(self, kind: QuotaKind) -> int | None:
        """The quota in use; C{None} without a limit."""
        found = self._value(kind)
        return None if found == UNLIMITED else found

    def _value(self, kind: QuotaKind) -> int:
        return self._chosen.get(kind, self._followed.get(kind, self._configured[kind]))

    def _apply(self) -> None:
        self._storage.limit = quota_in_bytes(self._value(QuotaKind.QUEUES))
        self._storage.journal_limit = quota_in_bytes(self._value(QuotaKind.JOURNALS))


def _name(kind: QuotaKind) -> str:
    return f"{_NAME}{kind.value}"
