"""Sends messages of applications, with or without a transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from uuid import UUID

import attrs

from msmq.background import undivided
from msmq.errors import LocalProtocolError
from msmq.interfaces.manager.queue_manager import ITransaction
from msmq.manager.applications.arguments import check_messages, check_transaction
from msmq.manager.applications.keyed_messages import KeyedMessages
from msmq.manager.applications.targets import SendTarget
from msmq.manager.applications.transactions import Transactions
from msmq.manager.outbox import Outbox
from msmq.manager.service_values import SentValues
from msmq.persistence.changes import Change
from msmq.queues.arriving.message import Message
from msmq.queues.arriving.send_run import templates_of
from msmq.queues.leaving.transaction import Transaction
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.status import MQError, Status


@attrs.frozen
class _Batch:
    """The messages of one call, of which some may have been sent before.

    @ivar digests: the digest of each message's key; C{None} without a key.
    @ivar known: the identifiers of those that were sent before.
    @ivar fresh: the indices of those that have to be sent; of several with one key the first.
    """

    messages: Sequence[Message]
    digests: Sequence[bytes | None]
    known: Mapping[bytes, MessageIdentifier]
    fresh: Sequence[int]

    @classmethod
    def of(
        cls,
        messages: Sequence[Message],
        digests: Sequence[bytes | None],
        known: Mapping[bytes, MessageIdentifier],
    ) -> _Batch:
        seen = set(known)
        fresh: list[int] = []
        for index, digest in enumerate(digests):
            if digest is None or digest not in seen:
                fresh.append(index)
                if digest is not None:
                    seen.add(digest)
        return cls(messages, digests, known, fresh)

    @property
    def to_send(self) -> list[Message]:
        """The messages that have to be sent."""
        return [self.messages[index] for index in self.fresh]

    @property
    def new_digests(self) -> list[bytes]:
        """The digests of those of them that have keys."""
        return [digest for index in self.fresh if (digest := self.digests[index]) is not None]

    @property
    def express_digests(self) -> frozenset[bytes]:
        """The keys of express messages among them."""
        return frozenset(
            digest
            for index in self.fresh
            if (digest := self.digests[index]) is not None and not self.messages[index].is_recoverable
        )

    def numbers(self, first: int) -> dict[bytes, int]:
        """The MessageIDs of the new keys, given that of the first message that is sent."""
        return {
            digest: number
            for number, index in enumerate(self.fresh, first)
            if (digest := self.digests[index]) is not None
        }

    def identifiers(self, own: UUID, first: int) -> list[MessageIdentifier]:
        """The identifier of every message of the call.

        @param own: that of the queue manager.
        @param first: the MessageID of the first message that is sent.
        """
        by_index = {index: MessageIdentifier(own, number) for number, index in enumerate(self.fresh, first)}
        new = {digest: MessageIdentifier(own, number) for digest, number in self.numbers(first).items()}
        by_digest = {**self.known, **new}
        return [
            by_index[index] if digest is None else by_digest[digest]
            for index, digest in enumerate(self.digests)
        ]


class MessageSender:
    """Enqueue Message, as applications call it. [MS-MQDMPR] 3.1.7.1.9."""

    def __init__(
        self,
        identifier: UUID,
        outbox: Outbox,
        transactions: Transactions,
        keyed: KeyedMessages,
        new_identifier: Callable[[], UUID],
    ) -> None:
        """Create a sender.

        @param identifier: its own.
        @param new_identifier: makes those of transactions.
        """
        self._identifier = identifier
        self._outbox = outbox
        self._transactions = transactions
        self._keyed = keyed
        self._new_identifier = new_identifier

    async def send(
        self,
        find: Callable[[], Awaitable[Sequence[SendTarget]]],
        messages: Sequence[Message],
        transaction: ITransaction | None,
        keys: Sequence[str | None] | None = None,
        values: SentValues | None = None,
    ) -> list[MessageIdentifier]:
        """Accept these messages for each target, all or none, and return one identifier each.

        @param find: resolves the destination; called again after a wait.
        @param keys: one for each message; a message whose key is known is not sent, and gets the identifier
        of the earlier one.
        @param values: what is stored with them.
        @raise LocalProtocolError: C{messages}, C{keys} or C{transaction} is something else, or there are
            C{values} with a transaction.
        @raise MQError: as L{Outbox.check} and L{Outbox.put}; MQ_ERROR_TRANSACTION_USAGE if some are
            transactional and others not, or if one that is not transactional is sent in a transaction;
            MQ_ERROR_ILLEGAL_PROPERTY_VALUE for an invalid key, MQ_ERROR_INVALID_PARAMETER for a wrong number
            of keys; MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION if another transaction that has not ended
            sends one of them.
        """
        check_messages(messages, keys)
        check_transaction(transaction)
        if values is not None and transaction is not None:
            raise LocalProtocolError("values are not stored with a transaction of an application")
        targets = await find()
        if values is not None and keys is None:
            keys = [None] * len(messages)
        if keys is not None and (values is not None or any(key is not None for key in keys)):
            return await self._send_keyed(find, targets, messages, transaction, keys, values)
        _check_keys(messages, keys)
        first = await self._send(targets, messages, transaction)
        numbers = range(first, first + len(messages))
        return [MessageIdentifier(self._identifier, number) for number in numbers]

    async def _send(
        self, targets: Sequence[SendTarget], messages: Sequence[Message], transaction: ITransaction | None
    ) -> int:
        """As L{send}, without keys; the first number."""
        is_transactional = self._check(targets, messages, transaction)
        if transaction is not None:
            return await self._outbox.send_in_open(self._transactions.core(transaction), targets, messages)
        if is_transactional:
            return await self._send_in_one(targets, messages)
        return await self._outbox.put(targets, messages)

    def _check(
        self, targets: Sequence[SendTarget], messages: Sequence[Message], transaction: ITransaction | None
    ) -> bool:
        """Whether these messages are transactional.

        @raise MQError: as L{send}.
        """
        self._outbox.check(messages, targets)
        kinds = {message.transactional for message in templates_of(messages)}
        if transaction is not None and False in kinds:
            raise MQError(
                Status.MQ_ERROR_TRANSACTION_USAGE, "only transactional messages are sent in a transaction"
            )
        if len(kinds) > 1:
            raise MQError(
                Status.MQ_ERROR_TRANSACTION_USAGE, "transactional messages and others are not sent together"
            )
        return True in kinds

    async def _send_in_one(self, targets: Sequence[SendTarget], messages: Sequence[Message]) -> int:
        async with self._transactions.begin(self._new_identifier()) as transaction:
            return self._outbox.send_in(transaction.core, targets, messages)

    # With keys

    async def _send_keyed(
        self,
        find: Callable[[], Awaitable[Sequence[SendTarget]]],
        targets: Sequence[SendTarget],
        messages: Sequence[Message],
        transaction: ITransaction | None,
        keys: Sequence[str | None],
        values: SentValues | None,
    ) -> list[MessageIdentifier]:
        _check_keys(messages, keys)
        is_transactional = self._check(targets, messages, transaction)
        core = None if transaction is None else self._transactions.core(transaction)
        keyed = self._keyed
        digests = keyed.digests(targets, keys)
        while (waiting := keyed.busy(digests, core)) is not None:
            await waiting
            targets = await find()
            is_transactional = self._check(targets, messages, transaction)
            digests = keyed.digests(targets, keys)
        known = {
            digest: MessageIdentifier(keyed.source(digest) or self._identifier, number)
            for digest in digests
            if digest is not None and (number := keyed.known(digest)) is not None
        }
        batch = _Batch.of(messages, digests, known)
        if not batch.fresh:
            identifiers = batch.identifiers(self._identifier, 0)
            if values is not None:
                await values.store(identifiers)
            return identifiers
        if core is not None:
            return await undivided(self._put_in(core, targets, batch))
        return await undivided(self._put(targets, batch, values, is_transactional=is_transactional))

    async def _put(
        self,
        targets: Sequence[SendTarget],
        batch: _Batch,
        values: SentValues | None,
        *,
        is_transactional: bool,
    ) -> list[MessageIdentifier]:
        def valued(first: int) -> list[Change]:
            return [] if values is None else values.changes(batch.identifiers(self._identifier, first))

        keyed = self._keyed
        if is_transactional:
            async with self._transactions.begin(self._new_identifier()) as transaction:
                core = transaction.core
                first = self._outbox.send_in(core, targets, batch.to_send)
                claim = keyed.claim_in(core, batch.new_digests, is_of_application=False)
                keyed.numbered(claim, batch.numbers(first))
                transaction.also = valued(first)
        else:
            claim = keyed.claim(batch.new_digests)
            try:
                first = await self._outbox.put(
                    targets,
                    batch.to_send,
                    lambda first: [
                        *keyed.changes(claim, batch.numbers(first), batch.express_digests),
                        *valued(first),
                    ],
                )
            except BaseException:
                keyed.failed(claim)
                raise
            keyed.stored(claim)
        if values is not None:
            values.stored()
        return batch.identifiers(self._identifier, first)

    async def _put_in(
        self, transaction: Transaction, targets: Sequence[SendTarget], batch: _Batch
    ) -> list[MessageIdentifier]:
        transaction.check_active()
        claim = self._keyed.claim_in(transaction, batch.new_digests)
        try:
            first = await self._outbox.send_in_open(transaction, targets, batch.to_send)
        except BaseException:
            self._keyed.given_up(claim, batch.new_digests)
            raise
        self._keyed.numbered(claim, batch.numbers(first))
        return batch.identifiers(self._identifier, first)


def _check_keys(messages: Sequence[Message], keys: Sequence[str | None] | None) -> None:
    if keys is not None and len(keys) != len(messages):
        raise MQError(
            Status.MQ_ERROR_INVALID_PARAMETER, f"there are {len(keys)} keys for {len(messages)} messages"
        )
