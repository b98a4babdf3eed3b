"""Decision about a batch of arriving messages of one session, as a function of facts. [MS-MQQB] 3.1.5.8.

L{decide} contains every rule about an arriving message: what closes the session, what is a duplicate or out
of order, with which class a message is refused, what is forwarded, what is acknowledged on the session.
These are the decisions of the receivers of [MS-MQQB] 3.1.1.1.1.4 (express), 3.1.1.1.1.6 (recoverable) and
3.1.1.1.1.8 (transactional); administration acknowledgements are messages like any other (3.1.5.11).
It uses no clock and no store. Its facts include the destination queue of each message, the verdict about its
signature and its sender, whether this queue manager forwards, and the free quota.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Container, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import attrs

from msmq.moment import Moment
from msmq.structures.internal.order_queue import is_for_order_queue
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.decisions.forwarding_decision import passing_refusal
from msmq.transfer.incoming_stream import Verdict
from msmq.wire.guid import NULL_GUID

_NULL: Final = NULL_GUID.bytes_le


class Destination(enum.Enum):
    """The kind of a message's destination, for this queue manager."""

    QUEUE = "a queue of this queue manager that is not transactional"
    TRANSACTIONAL_QUEUE = "a transactional queue of this queue manager"
    MISSING = "this queue manager, which has no such queue"
    ELSEWHERE = "another queue manager"


LOCAL_DESTINATION: Final = {False: Destination.QUEUE, True: Destination.TRANSACTIONAL_QUEUE}
"""The kind of a local queue, by whether it is transactional. [MS-MQQB] 3.1.5.8.5.

A connector queue is local, though its messages are for another queue manager.
"""

ABSENT_DESTINATION: Final = {True: Destination.MISSING, False: Destination.ELSEWHERE}
"""The kind of a destination without a local queue, by whether the QueueManagerAddress is null or our own."""


class Closure(enum.Enum):
    """Why the session closes; the names are those of L{msmq.session.effects.CloseReason}."""

    UNSUPPORTED_MESSAGE = "a recoverable message, and a store that is not durable"
    NO_RESOURCES = "a limit is reached, and the sender has to keep its message"
    NOT_FROM_ITS_SENDER = "a direct name, and a message of another queue manager"


class SecurityRefusal(Protocol):
    """Why a message is refused for its signature, its encryption or its sender.

    @ivar message_class: of the negative acknowledgement.
    @ivar reason: a sentence that names the right, certificate, algorithm or line of the configuration.
    @ivar precedes_queue: its peer or the policy of its session is the reason, so that no rule of its queue
    comes before.
    """

    @property
    def message_class(self) -> MessageClass: ...

    @property
    def reason(self) -> str: ...

    @property
    def precedes_queue(self) -> bool: ...


class ArrivalHistory(Protocol):
    """The duplicate and stream state of this queue manager, which judging advances."""

    def has_passed(self, message: UserMessageView, /) -> bool:
        """Whether a message would be a duplicate now."""

    def classify(
        self, messages: Sequence[UserMessageView], address: str, now: Moment, /
    ) -> Mapping[UserMessageView, Verdict]:
        """The verdicts about these messages, except those that are simply accepted."""


@attrs.frozen(kw_only=True)
class ArrivalFacts:
    """The facts about a batch of arriving messages.

    @ivar address: of the peer, as text.
    @ivar is_trusted: whether the configuration accepts messages from that address without verification.
    @ivar peer: bytes of the GUID of the peer; C{None} if messages of others are accepted from it by direct
        names as well.
    @ivar destinations: the kind of each message's destination.
    @ivar security: the messages that the security checks refuse, with the reasons.
    @ivar is_durable: whether the store keeps recoverable messages.
    @ivar free: bytes that are free in the queue manager's quota.
    @ivar is_routing_server: whether it forwards messages of others.
    @ivar without_route: messages for others without an outgoing queue now, with the one of
        L{PASSING<msmq.transfer.decisions.forwarding_decision.PASSING>} it is.
    @ivar duplicates: express messages that were accepted before.
    @ivar different: the messages, without further ones of one shape:
        L{different_ones<msmq.structures.packet.user_message_view.different_ones>}.
    @ivar size: bytes of all packets together.
    """

    address: str
    is_trusted: bool
    peer: bytes | None
    destinations: Sequence[Destination]
    security: Mapping[UserMessageView, SecurityRefusal]
    is_durable: bool
    free: int
    is_routing_server: bool
    without_route: Mapping[UserMessageView, str]
    duplicates: Container[UserMessageView]
    different: Sequence[UserMessageView]
    size: int


class ArrivalOutcome(enum.Enum):
    """The outcome for a message that is not refused."""

    ENQUEUED = "enters its queue"
    FORWARDED = "enters the outgoing queue of the queue manager that it is for"
    ACKNOWLEDGEMENT = "is for the order queue, or for a queue that is missing"
    DUPLICATE = "was accepted before, and is acknowledged again"
    OUT_OF_ORDER = "one before it in its stream is missing"
    NO_ROOM = "no further stream is accepted; it is sent again"
    IGNORED = "is neither acknowledged nor stored, so it is sent again"


@attrs.frozen
class ArrivalRefusal:
    """A message that is not accepted.

    @ivar why: the class of the negative acknowledgement, or a name where the protocol has none.
    @ivar detail: an addition for the event log.
    @ivar is_sent_again: it is not acknowledged on the session, so its sender keeps it.
    """

    why: MessageClass | str
    detail: str = ""
    is_sent_again: bool = False


MessageOutcome: TypeAlias = ArrivalOutcome | ArrivalRefusal

_DROPPED: Final = {
    Verdict.DUPLICATE: ArrivalOutcome.DUPLICATE,
    Verdict.OUT_OF_ORDER: ArrivalOutcome.OUT_OF_ORDER,
}


@attrs.frozen
class ArrivalDecision:
    """The decision about a batch of arriving messages.

    @ivar outcomes: one for each message, in their order; messages after the last one are ignored, since the
    session closes.
    @ivar acknowledged: how many of the recoverable messages, from the first on, the session acknowledges
    after the commit.
    @ivar is_classified: the state of streams and duplicates has changed, and is stored with the messages.
    @ivar closure: why the session closes, if it does.
    @ivar unverified: recoverable messages of unauthenticated senders at untrusted addresses;
        a negative acknowledgement is sent only to that address.
    """

    outcomes: Sequence[MessageOutcome]
    acknowledged: int
    is_classified: bool
    closure: Closure | None
    unverified: Container[UserMessageView] = ()


def cut_at(decision: ArrivalDecision, messages: Sequence[UserMessageView], index: int) -> ArrivalDecision:
    """The same decision, with no acknowledgement on the session from one message on.

    Later recoverable messages are stored all the same, and are duplicates when they are sent again.

    @param index: of the first message that is not acknowledged.
    """
    acknowledged = sum(message.is_recoverable for message in messages[:index])
    behind = [
        outcome if message.is_recoverable else ArrivalOutcome.IGNORED
        for message, outcome in zip(messages[index + 1 :], decision.outcomes[index + 1 :], strict=False)
    ]
    return attrs.evolve(
        decision,
        outcomes=[*decision.outcomes[: index + 1], *behind],
        acknowledged=min(decision.acknowledged, acknowledged),
    )


def decide(
    messages: Sequence[UserMessageView], facts: ArrivalFacts, history: ArrivalHistory, now: Moment
) -> ArrivalDecision:
    """Decide about a batch of arriving messages at this time."""
    run = _of_run(messages, facts, history, now)
    if run is not None:
        return run
    different = facts.different
    if any(message.is_recoverable for message in different):
        return _with_recoverable(messages, facts, history, now)
    wall = now.wall
    if (
        not facts.security
        and facts.duplicates == ()
        and facts.destinations.count(Destination.QUEUE) == len(messages)
        and not [message for message in different if wall >= message.reach_limit]
    ):
        # Nearly every express message: no objection, and an existing queue.
        return ArrivalDecision([ArrivalOutcome.ENQUEUED] * len(messages), 0, False, None)
    outcomes = _Outcomes(facts, now)
    for message, destination in zip(messages, facts.destinations, strict=True):
        outcomes.add_express(message, destination)
    return outcomes.decision(is_classified=False)


def _of_run(
    messages: Sequence[UserMessageView], facts: ArrivalFacts, history: ArrivalHistory, now: Moment
) -> ArrivalDecision | None:
    """The decision about a run: recoverable messages that only the rule about duplicates can refuse.

    Each is for a queue that is there, not transactional, not late, from the peer itself if its name is
    direct, and not refused by security, and all of them may be stored. That is nearly everything that
    arrives; C{None} for all else, of which nothing has been judged then.
    """
    if (
        not messages
        or facts.security
        or not facts.is_durable
        or facts.destinations.count(Destination.QUEUE) != len(messages)
    ):
        return None
    wall, peer = now.wall, facts.peer
    for message in facts.different:
        if (
            not message.is_recoverable
            or message.is_transactional
            or wall >= message.reach_limit
            or (
                peer is not None
                and message.source_queue_manager != peer
                and message.queue_manager_address == _NULL
            )
        ):
            return None
    if facts.size > facts.free:
        return None
    verdicts = history.classify(messages, facts.address, now)
    outcomes: list[MessageOutcome] = [ArrivalOutcome.ENQUEUED] * len(messages)
    for index, message in enumerate(messages) if verdicts else ():
        if (verdict := verdicts.get(message, Verdict.ACCEPTED)) is not Verdict.ACCEPTED:
            outcomes[index] = _DROPPED[verdict]
    return ArrivalDecision(outcomes, len(messages), True, None)


def _with_recoverable(
    messages: Sequence[UserMessageView], facts: ArrivalFacts, history: ArrivalHistory, now: Moment
) -> ArrivalDecision:
    unverified = _unverified(messages, facts)
    end, closure, refusal = _first_unacceptable(messages, facts, history)
    is_classified = closure is not Closure.UNSUPPORTED_MESSAGE
    verdicts: Mapping[UserMessageView, Verdict] = {}
    if is_classified:
        judged = [
            message
            for message, destination in zip(messages[:end], facts.destinations, strict=False)
            if message.is_recoverable
            and destination is not Destination.ELSEWHERE
            and message not in unverified
            # An order queue is not a delivery destination.
            and (destination is not Destination.MISSING or not is_for_order_queue(message.packet))
        ]
        verdicts = history.classify(judged, facts.address, now)
    outcomes = _Outcomes(facts, now, unverified, closure)
    for message, destination in zip(messages[:end], facts.destinations, strict=False):
        outcomes.add_classified(message, destination, verdicts.get(message))
    if refusal is not None:
        outcomes.add(refusal)
    return outcomes.decision(is_classified=is_classified)


def _first_unacceptable(
    messages: Sequence[UserMessageView], facts: ArrivalFacts, history: ArrivalHistory
) -> tuple[int, Closure | None, ArrivalRefusal | None]:
    """The first message that closes the session before the rules about its queue apply.

    Neither it nor a later message is judged: that would advance its stream past messages that are not stored.

    @return: its index, or the number of messages; why the session closes; the refusal.
    """
    if not facts.is_durable:
        for index, message in enumerate(messages):
            if message.is_recoverable:
                kind = "TRANSACTIONAL" if message.is_transactional else "RECOVERABLE"
                return index, Closure.UNSUPPORTED_MESSAGE, ArrivalRefusal(f"UNSUPPORTED_{kind}")
    end, closure, refusal = len(messages), None, None
    impostor = _first_of_another(messages, facts)
    if impostor is not None:
        end, closure = impostor, Closure.NOT_FROM_ITS_SENDER
        refusal = ArrivalRefusal(closure.name)
    free = facts.free
    if sum(message.size for message in messages[:end]) > free:
        for index, message in enumerate(messages[:end]):
            if history.has_passed(message):
                # It is not stored again; if it counted against the quota, its sender would send it forever.
                continue
            free -= message.size
            if free < 0 and message.is_recoverable:
                # [MS-MQQB] 3.1.5.8.8, reading 67: over the queue manager's quota nothing is acknowledged.
                return index, Closure.NO_RESOURCES, ArrivalRefusal("QUEUE_MANAGER_QUOTA_EXCEEDED")
    return end, closure, refusal


def _first_of_another(messages: Sequence[UserMessageView], facts: ArrivalFacts) -> int | None:
    """The first message to a direct name that states another source than the peer.

    Such messages are never forwarded, so the source must be the peer. If it were judged, it would use up the
    sequence number or MessageID of a message that the stated source has yet to send.
    """
    if facts.peer is None:
        return None
    for index, message in enumerate(messages):
        if (
            message.is_recoverable
            and message.source_queue_manager != facts.peer
            and message.queue_manager_address == _NULL
            and not is_for_order_queue(message.packet)
        ):
            return index
    return None


def _unverified(messages: Sequence[UserMessageView], facts: ArrivalFacts) -> Collection[UserMessageView]:
    """The recoverable messages of unauthenticated senders at untrusted addresses.

    None of them is accepted. If they were judged, any peer could cause later messages of another sender to be
    dropped as duplicates.
    """
    if facts.is_trusted:
        return ()
    return {
        message
        for message, destination in zip(messages, facts.destinations, strict=True)
        if message.is_recoverable
        and (destination in (Destination.MISSING, Destination.ELSEWHERE) or message in facts.security)
    }


class _Outcomes:
    """Outcomes in the order of the messages, and the extent of the session acknowledgement."""

    def __init__(
        self,
        facts: ArrivalFacts,
        now: Moment,
        unverified: Collection[UserMessageView] = (),
        closure: Closure | None = None,
    ) -> None:
        self._facts = facts
        self._now = now.wall
        self._unverified = unverified
        self._outcomes: list[MessageOutcome] = []
        self._acknowledged = 0
        self._is_cut = False
        self._closure = closure

    def add(self, outcome: MessageOutcome) -> None:
        self._outcomes.append(outcome)

    def decision(self, *, is_classified: bool) -> ArrivalDecision:
        return ArrivalDecision(
            self._outcomes, self._acknowledged, is_classified, self._closure, self._unverified
        )

    def add_express(self, message: UserMessageView, destination: Destination) -> None:
        """Decide about a message that is not recoverable."""
        if self._is_cut:
            self.add(ArrivalOutcome.IGNORED)
        elif message in self._facts.duplicates:
            self.add(ArrivalOutcome.DUPLICATE)
        else:
            self.add(self._of_accepted(message, destination))

    def add_classified(
        self, message: UserMessageView, destination: Destination, verdict: Verdict | None
    ) -> None:
        """Decide about a message of a batch in which some are recoverable.

        Messages from the first unacknowledged one on are not acknowledged; those enqueued after it are
        duplicates when they are sent again.
        """
        if not message.is_recoverable:
            self.add_express(message, destination)
            return
        if verdict is Verdict.NO_ROOM:
            self._cut()
            self.add(ArrivalOutcome.NO_ROOM)
            return
        if not self._is_cut:
            self._acknowledged += 1
        if verdict is None or verdict is Verdict.ACCEPTED:
            self.add(self._of_accepted(message, destination))
        else:
            self.add(_DROPPED[verdict])

    def _of_accepted(self, message: UserMessageView, destination: Destination) -> MessageOutcome:
        """The rules about the queue of a message, in the order of [MS-MQQB] 3.1.5.8: its type, security,
        expiration.
        """
        facts = self._facts
        refused = facts.security.get(message) if facts.security else None
        if refused is None or not refused.precedes_queue:
            is_transactional = destination is Destination.TRANSACTIONAL_QUEUE
            is_local = is_transactional or destination is Destination.QUEUE
            if is_local and is_transactional is not message.is_transactional:
                return ArrivalRefusal(
                    MessageClass.NACK_NOT_TRANSACTIONAL_MSG
                    if is_transactional
                    else MessageClass.NACK_NOT_TRANSACTIONAL_Q
                )
        if refused is not None:
            return ArrivalRefusal(refused.message_class, f": {refused.reason}")
        if destination is Destination.MISSING:
            return ArrivalOutcome.ACKNOWLEDGEMENT
        if destination is Destination.ELSEWHERE:
            return self._of_passing(message)
        if self._now >= message.reach_limit:
            return ArrivalRefusal(MessageClass.NACK_REACH_QUEUE_TIMEOUT)
        return ArrivalOutcome.ENQUEUED

    def _of_passing(self, message: UserMessageView) -> MessageOutcome:
        facts = self._facts
        why = passing_refusal(
            message, is_routing_server=facts.is_routing_server, is_late=self._now >= message.reach_limit
        )
        if why is not None:
            return ArrivalRefusal(why)
        passing = facts.without_route.get(message)
        if passing is None:
            return ArrivalOutcome.FORWARDED
        is_sent_again = message.is_recoverable and not self._is_cut
        if is_sent_again:
            self._acknowledged -= 1
            self._cut()
        return ArrivalRefusal(passing, is_sent_again=is_sent_again)

    def _cut(self) -> None:
        self._is_cut = True
        self._closure = Closure.NO_RESOURCES
