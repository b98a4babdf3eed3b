"""Standby servers: several servers with one store, of which one at a time is active."""

from __future__ import annotations

import enum
from collections.abc import Callable
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from zope.interface import Interface

from msmq.interfaces.storage import StorageError


class StandbyState(enum.Enum):
    """Why a standby waits; the values are what C{msmq status} shows."""

    STARTING = "starting"
    ACTIVE_ELSEWHERE = "active elsewhere"
    BEHIND_STANDBY = "behind another standby"
    UNREACHABLE = "the database is unreachable"


@attrs.frozen
class StandbyReport:
    """What a waiting standby knows.

    @ivar holder: the holder of the store, for operators; empty if unknown.
    @ivar silent: seconds for which the holder was not seen at work.
    @ivar problem: the error, if the database is unreachable.
    """

    state: StandbyState = StandbyState.STARTING
    holder: str = ""
    silent: float = 0.0
    problem: str = ""


@attrs.frozen
class Elected:
    """The result of an election: this server may open the store.

    @ivar owner: QueueManager.Identifier of the store's queue manager; C{None} for a new store.
        [MS-MQDMPR] 3.1.1.1.
    @ivar reason: why, for the log.
    """

    owner: UUID | None
    reason: str


class IElection(Interface):
    """Waits until this server may be the active one."""

    def elected() -> Deferred[Elected]:
        """Begin to wait; fires once, in the reactor's thread.

        From then on no earlier owner can write to the store any more. Errors are L{StorageError}.
        """

    def settled() -> None:
        """The store is open: the next standby may wait for it."""

    def close() -> Deferred[None]:
        """End the wait and release everything; fires when that is done."""


class IStandbyStorage(Interface):
    """Provided by a storage factory whose stores several servers can share, one at a time."""

    def make_election(argument: str, lease: float, report: Callable[[StandbyReport], object]) -> IElection:
        """Create the election for a store.

        @param argument: as of L{IStorageFactory.open_store<msmq.interfaces.plugins.IStorageFactory>}.
        @param lease: seconds without a sign of life after which the active server is replaced.
        @param report: called in the reactor's thread with each change of what is known.
        @raise ValueError: the argument is unsuitable; its text is the reason.
        """


class IOwnedStore(Interface):
    """A store that another process can take over."""

    def ownership_lost() -> Deferred[StorageError]:
        """Fires when the open store has another owner, and refuses everything, with the error."""
