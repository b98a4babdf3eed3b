"""Idempotent sends by message key: each key is sent once, however often it is requested."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred

from msmq.interfaces.clock import IClock
from msmq.manager.applications.send_keys import KeyPage, SendKeys, digest_of
from msmq.manager.applications.targets import SendTarget
from msmq.manager.states import as_changes
from msmq.moment import Moment
from msmq.persistence.changes import Change
from msmq.queues.leaving.transaction import Transaction, TransactionState
from msmq.structures.status import MQError, Status

_OPEN: Final = frozenset({TransactionState.ACTIVE, TransactionState.PREPARED})
"""In these states a transaction waits for its application."""


@attrs.define(eq=False)
class KeyReservation:
    """Keys whose messages are being sent, reserved against concurrent sends.

    @ivar transaction: the transaction in which they are sent, if any.
    @ivar is_of_application: whether an application ends the transaction.
    @ivar numbers: their MessageIDs, as far as these are known.
    @ivar page: the page that is being stored.
    """

    transaction: Transaction | None
    is_of_application: bool = False
    digests: set[bytes] = attrs.field(factory=set)
    numbers: dict[bytes, int] = attrs.field(factory=dict)
    page: KeyPage | None = None
    _waiting: list[Deferred[None]] = attrs.field(factory=list)

    @property
    def ends_by_itself(self) -> bool:
        """Whether it ends without an action of an application."""
        return self.transaction is None or not self.is_of_application or self.transaction.state not in _OPEN

    def holds_for(self, transaction: Transaction | None, digest: bytes) -> bool:
        """Whether this key was already used in that transaction, whose number applies."""
        return transaction is not None and self.transaction is transaction and digest in self.numbers

    def wait(self) -> Deferred[None]:
        """Wait for its end; the Deferred may be cancelled."""
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        return waiting

    def end(self) -> None:
        """Notify the waiting senders."""
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done.callback(None)


class KeyedMessages:
    """The message keys of a queue manager: stored ones, and those of sends in progress.

    @ivar keys: the stored keys.
    """

    def __init__(self, clock: IClock, keys: SendKeys) -> None:
        self._clock = clock
        self.keys = keys
        self._claims: dict[bytes, KeyReservation] = {}
        self._in_transactions: dict[Transaction, KeyReservation] = {}

    def digests(self, targets: Sequence[SendTarget], keys: Iterable[str | None]) -> list[bytes | None]:
        """The digests of these keys.

        @raise MQError: MQ_ERROR_ILLEGAL_PROPERTY_VALUE.
        """
        scope = [
            str(target.queue.definition.identifier) if target.is_local else str(target.name)
            for target in targets
        ]
        return [None if key is None else digest_of(key, scope) for key in keys]

    def busy(self, digests: Iterable[bytes | None], transaction: Transaction | None) -> Deferred[None] | None:
        """Wait for a concurrent send of one of these keys; C{None} if there is none.

        @raise MQError: MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION if it is part of a transaction that an
        application has not ended.
        """
        for digest in digests:
            claim = None if digest is None else self._claims.get(digest)
            if digest is None or claim is None or claim.holds_for(transaction, digest):
                continue
            if claim.ends_by_itself:
                return claim.wait()
            raise MQError(
                Status.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION,
                "a message with the same key is part of a transaction that has not ended",
            )
        return None

    def known(self, digest: bytes) -> int | None:
        """The MessageID of the message that was sent under a key, or is in the same transaction."""
        claim = self._claims.get(digest)
        return self.keys.find(digest, self._clock.now()) if claim is None else claim.numbers.get(digest)

    def source(self, digest: bytes) -> UUID | None:
        """The former identifier of this queue manager, if it sent the message of a known key under that."""
        return None if digest in self._claims else self.keys.source(digest)

    # Without a transaction of an application

    def claim(self, digests: Iterable[bytes]) -> KeyReservation:
        """Reserve keys that are neither known nor busy; call L{stored} or L{failed} afterwards."""
        return self._claim(KeyReservation(None), digests)

    def changes(
        self, claim: KeyReservation, numbers: Mapping[bytes, int], express: Set[bytes] = frozenset()
    ) -> list[Change]:
        """The changes to store with the messages, whose numbers are known now.

        @param express: the keys of express messages, which are not stored.
        """
        claim.numbers.update(numbers)
        if not claim.numbers:
            # Messages without keys: pages without keys would not count for the limit on keys.
            return []
        claim.page = self.keys.page(claim.numbers, self._clock.now(), express)
        return as_changes(claim.page.changes())

    def stored(self, claim: KeyReservation) -> None:
        """The messages are stored."""
        if claim.page is not None:
            self.keys.stored(claim.page, self._clock.now())
        self._end(claim)

    def expire(self, now: Moment) -> list[Change]:
        """Remove expired keys; returns the changes to store."""
        return as_changes(self.keys.expire(now))

    def failed(self, claim: KeyReservation) -> None:
        """The messages were not sent."""
        if claim.page is not None:
            self.keys.failed(claim.page)
        self._end(claim)

    # In a transaction

    def claim_in(
        self, transaction: Transaction, digests: Iterable[bytes], *, is_of_application: bool = True
    ) -> KeyReservation:
        """Reserve keys in a transaction.

        @param is_of_application: whether an application ends the transaction; otherwise it ends with this
        send.
        """
        claim = self._in_transactions.setdefault(transaction, KeyReservation(transaction, is_of_application))
        return self._claim(claim, digests)

    def numbered(self, claim: KeyReservation, numbers: Mapping[bytes, int]) -> None:
        """The messages are part of the transaction now."""
        claim.numbers.update(numbers)

    def given_up(self, claim: KeyReservation, digests: Iterable[bytes]) -> None:
        """The messages are not part of the transaction."""
        for digest in digests:
            claim.digests.discard(digest)
            self._release(claim, digest)

    def committing(self, transaction: Transaction) -> list[Change]:
        """The changes to store when a transaction commits."""
        claim = self._in_transactions.get(transaction)
        return self.changes(claim, {}) if claim is not None and claim.numbers else []

    def uncommitted(self, transaction: Transaction) -> None:
        """The commit failed; the transaction continues."""
        claim = self._in_transactions.get(transaction)
        if claim is not None:
            if claim.page is not None:
                self.keys.failed(claim.page)
                claim.page = None
            claim.end()

    def committed(self, transaction: Transaction) -> None:
        """The commit is stored."""
        claim = self._in_transactions.pop(transaction, None)
        if claim is not None:
            self.stored(claim)

    def ended(self, transaction: Transaction) -> None:
        """A transaction has ended; if it was aborted, its keys are free again."""
        claim = self._in_transactions.pop(transaction, None)
        if claim is not None:
            self.failed(claim)

    def _claim(self, claim: KeyReservation, digests: Iterable[bytes]) -> KeyReservation:
        for digest in digests:
            claim.digests.add(digest)
            self._claims[digest] = claim
        return claim

    def _end(self, claim: KeyReservation) -> None:
        for digest in claim.digests:
            self._release(claim, digest)
        claim.end()

    def _release(self, claim: KeyReservation, digest: bytes) -> None:
        if self._claims.get(digest) is claim:
            del self._claims[digest]
