"""Transactions: records, and the state of the route, which are committed together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
from confluent_kafka import KafkaError, KafkaException, Producer

from msmq.bridge.committed_messages import CommittedMessages
from msmq.bridge_service.brokers import BrokerError
from msmq.bridge_service.kafka import state_topic
from msmq.bridge_service.kafka.client_configuration import LARGEST_MESSAGE, client_configuration
from msmq.bridge_service.kafka.cluster_client import SLICE, ClusterClient, ClusterErrors
from msmq.bridge_service.kafka.errors import (
    MISSING,
    OF_A_MESSAGE,
    REFUSED_TOPIC,
    broker_error,
    error_of,
    text_of,
)
from msmq.bridge_service.kafka.records import KafkaRecord
from msmq.bridge_service.kafka.settings import TOPIC_NAME, KafkaSettings
from msmq.quoting import quoted

LARGEST_BATCH: Final = 500
"""Limit on records of one transaction."""

LARGEST_BYTES: Final = 0x400000
"""Limit on the bytes of one transaction, unless it has one record alone."""


@attrs.frozen
class Publication:
    """A record with the message that it is of.

    @ivar lookup: the LookupIdentifier of the message in its queue.
    @ivar is_chosen: whether its topic was chosen by a peer, for a reply, or by a program, and may be missing.
    """

    token: int
    identifier: str
    lookup: int
    record: KafkaRecord
    is_chosen: bool = False


@attrs.frozen
class TransactionResult:
    """What has become of publications.

    @ivar committed: those that are committed.
    @ivar refused: tokens of those that are refused permanently, with the reasons.
    @ivar again: those to try again, one at a time if there are several: one of them is to blame.
    """

    committed: Sequence[Publication] = ()
    refused: Mapping[int, str] = attrs.field(factory=dict)
    again: Sequence[Publication] = ()


class TransactionalProducer:
    """The producer of one route; every method is called in its thread.

    @ivar state: what was committed before.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        cluster: ClusterClient,
        errors: ClusterErrors,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._errors = errors
        self._is_stopping = is_stopping
        self._chosen_topics: set[str] = set()
        self.state = CommittedMessages()
        self._producer: Any = Producer(
            {
                **client_configuration(settings, errors),
                "transactional.id": settings.client_name,
                "transaction.timeout.ms": int(settings.transaction_time * 1000),
                "message.max.bytes": LARGEST_MESSAGE,
                "linger.ms": 1,
            }
        )

    def start(self) -> None:
        """End what an earlier bridge has left open, keep it out, and read what it has committed.

        @raise BrokerError: the cluster refuses.
        """
        state_topic.prepare(self._settings, self._cluster, self._errors)
        self._cluster.patiently(self._producer.init_transactions)
        self.state = state_topic.last_state(self._settings, self._cluster, self._errors)

    def serve(self) -> None:
        """Call the callbacks of the client.

        @raise BrokerError: the cluster cannot be used any more.
        """
        self._producer.poll(0)
        self._errors.check()

    def publish(self, publications: Sequence[Publication], state: CommittedMessages) -> TransactionResult:
        """Publish records in one transaction.

        @param state: what was committed before.
        @raise BrokerError: the cluster cannot be used; the state topic has whether they are committed.
        """
        refused: dict[int, str] = {}
        wanted = []
        for each in publications:
            refusal = self._refusal(each.record.topic) if each.is_chosen else ""
            if refusal:
                refused[each.token] = f"unroutable: {refusal}"
            else:
                wanted.append(each)
        if not wanted:
            return TransactionResult(refused=refused)
        reports: dict[int, KafkaError] = {}
        try:
            self._producer.begin_transaction()
            produced = self._produce_all(wanted, reports)
            if not reports:
                self._commit({each.identifier: each.lookup for each in produced}, state, reports)
                return TransactionResult(produced, refused)
        except KafkaException as error:
            found = error_of(error)
            if found is None or not found.txn_requires_abort():
                raise broker_error(error) from error
        self._abort()
        return self._judged(wanted, refused, reports)

    def close(self) -> None:
        """End the producer; an open transaction is ended by the cluster, or by the next bridge."""
        self._producer.purge()
        # Its own close() would try to abort the transaction, and wait for that.
        self._producer = None

    def _produce_all(
        self, publications: Sequence[Publication], reports: dict[int, KafkaError]
    ) -> list[Publication]:
        """Those that were produced; stops at one that the client refuses."""
        produced = []
        for each in publications:
            record = each.record

            def report(error: KafkaError | None, _: Any, token: int = each.token) -> None:
                if error is not None:
                    reports[token] = error

            try:
                self._produce(
                    topic=record.topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    timestamp=record.timestamp,
                    on_delivery=report,
                )
            except KafkaException as error:
                found = error_of(error)
                if found is None or found.code() not in OF_A_MESSAGE:
                    raise
                reports[each.token] = found
                break
            produced.append(each)
        return produced

    def _produce(self, **record: Any) -> None:
        while True:
            try:
                self._producer.produce(**record)
                return
            except BufferError:
                self._producer.poll(SLICE)
                self._check()

    def _commit(
        self, added: Mapping[str, int], state: CommittedMessages, reports: dict[int, KafkaError]
    ) -> None:
        def report(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                reports[_STATE] = error

        self._produce(
            topic=self._settings.state_topic,
            partition=state_topic.PARTITION,
            key=self._settings.client_name.encode("ascii"),
            value=state.record(added),
            on_delivery=report,
        )
        while True:
            try:
                self._producer.commit_transaction(SLICE)
                return
            except KafkaException as error:
                found = error_of(error)
                if found is None or not found.retriable():
                    raise
                self._check()

    def _abort(self) -> None:
        while True:
            try:
                self._producer.abort_transaction(SLICE)
                return
            except KafkaException as error:
                found = error_of(error)
                if found is None or not found.retriable():
                    raise broker_error(error) from error
                self._check()

    def _check(self) -> None:
        self._errors.check()
        if self._is_stopping():
            raise BrokerError("the connection was closed")

    def _refusal(self, topic: str) -> str:
        """Why a message cannot go to a topic that was chosen for it; empty if it can.

        @raise BrokerError: that cannot be found out.
        """
        if TOPIC_NAME.fullmatch(topic) is None:
            # The client would not even ask, but fail.
            return f"no topic {quoted(topic)}"
        if topic in self._chosen_topics:
            return ""
        error = self._cluster.topic_error(topic)
        if error is None:
            if len(self._chosen_topics) > LARGEST_BATCH:
                self._chosen_topics.clear()
            self._chosen_topics.add(topic)
            return ""
        if error.code() in MISSING:
            return f"no topic {quoted(topic)}"
        reason = f"topic {topic}: {text_of(error)}"
        if error.code() in REFUSED_TOPIC:
            return reason
        raise BrokerError(reason)

    def _judged(
        self, publications: Sequence[Publication], refused: dict[int, str], reports: Mapping[int, KafkaError]
    ) -> TransactionResult:
        """What to do after a transaction that was aborted."""
        for each in publications:
            error = reports.get(each.token)
            if error is None:
                continue
            reason = f"topic {each.record.topic}: {text_of(error)}"
            if error.code() in OF_A_MESSAGE:
                if len(publications) == 1:
                    return TransactionResult(refused={**refused, each.token: reason})
            elif error.code() in MISSING:
                if not each.is_chosen:
                    raise BrokerError(f"no topic '{each.record.topic}' at the cluster; create it")
                self._chosen_topics.discard(each.record.topic)
            elif each.is_chosen and error.code() in REFUSED_TOPIC:
                refused[each.token] = f"unroutable: {reason}"
            elif not error.retriable() and error.code() not in _OF_THE_BATCH:
                raise BrokerError(reason)
        state = reports.get(_STATE)
        if state is not None and state.code() in (OF_A_MESSAGE | MISSING) and len(reports) == 1:
            raise BrokerError(f"topic {self._settings.state_topic}: {text_of(state)}")
        again = [each for each in publications if each.token not in refused]
        return TransactionResult(refused=refused, again=again)


_STATE: Final = 0
"""In place of a token: the record of the state. Tokens begin with 1."""

_OF_THE_BATCH: Final = frozenset(
    {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT}
)
"""Errors of records that others have caused."""
