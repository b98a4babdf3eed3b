"""The sessions and the responder to pings of a double, which misbehave as its plan says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from zope.interface import implementer

from msmq.broker.sessions import BrokerSession, Intake
from msmq.decoding.message_json import message_json
from msmq.double.events import DoubleEvent
from msmq.double.fault_plan import FaultPlan
from msmq.double.script import Fault, FaultAction, MessageFacts, MessageKind, PeerAnswer
from msmq.errors import RemoteProtocolError
from msmq.interfaces.broker import HookResult
from msmq.interfaces.clock import IClock
from msmq.interfaces.session_policy import ISessionPolicy, MessageRefusal, SessionPeer
from msmq.net.session import SessionProtocol
from msmq.net.session_factory import SessionFactory
from msmq.net.session_owner import SessionOwner
from msmq.service.replacements import ServerPingProtocol
from msmq.session.effects import CloseReason
from msmq.session.session import Session
from msmq.structures.internal.order_queue import is_for_order_queue
from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError

MOST_REFUSED: Final = 10_000
"""Limit on messages that are to be refused and have not reached the queue manager of the double."""

_OF_RECEIPT: Final = 0x4000
"""The bit of the classes that say what became of a message in its queue. [MS-MQMQ] 2.2.18.1.6."""

_SIGNATURE: Final = slice(4, 8)
"""The bytes of BaseHeader.Signature. [MS-MQMQ] 2.2.19.1."""


@implementer(ISessionPolicy)
class ScriptedRefusals:
    """Refuses the messages for which a fault was chosen; the session policy of a double."""

    def __init__(self) -> None:
        self._refused: dict[UserMessageView, MessageRefusal] = {}

    def refuse(self, message: UserMessageView, refusal: MessageRefusal) -> None:
        """Refuse this message when the queue manager gets it."""
        if len(self._refused) >= MOST_REFUSED:
            self._refused.clear()
        self._refused[message] = refusal

    def session_refusal(self, peer: SessionPeer) -> str:
        """Refuse none; L{DoubleSession.may_open} does."""
        return ""

    def message_refusal(self, peer: SessionPeer, message: UserMessageView) -> str | MessageRefusal:
        """See L{ISessionPolicy.message_refusal}."""
        return self._refused.pop(message, "")


@attrs.frozen(eq=False)
class DoublePlay:
    """What the sessions and the pings of one double share.

    @ivar plan: chooses the faults.
    @ivar refusals: the session policy.
    @ivar report: called with each event.
    @ivar reactor: delays messages.
    @ivar rejected: the faults of messages that are refused once they are in their queue, by their identity.
    """

    plan: FaultPlan
    refusals: ScriptedRefusals
    report: Callable[[DoubleEvent], None]
    reactor: IReactorTime
    clock: IClock
    rejected: dict[bytes, Fault] = attrs.field(factory=dict)


class DoubleSession(BrokerSession):
    """A session of a double."""

    def __init__(
        self, factory: SessionOwner[SessionProtocol], session: Session, intake: Intake, play: DoublePlay
    ) -> None:
        super().__init__(factory, session, intake)
        self._play = play
        self._is_silent = False
        self._is_corrupting = False
        self._lost: set[int] = set()
        self._stored = 0
        self._delayed: Deferred[None] | None = None
        self._is_ending = False

    def may_open(self) -> bool:
        """Answer as the script says."""
        answer = self._play.plan.session_answer()
        self._report("session", answer.value)
        return answer is PeerAnswer.ACCEPT and super().may_open()

    def session_opened(self) -> None:
        """See L{SessionProtocol.session_opened}."""
        self._report("opened")
        super().session_opened()

    def session_ending(self, reason: CloseReason) -> None:
        """End the delay of a message: a timer that is left fails the test that has stopped the double."""
        super().session_ending(reason)
        self._is_ending = True
        if self._delayed is not None:
            self._delayed.cancel()

    def session_closed(
        self,
        reason: CloseReason,
        unacknowledged: Sequence[OutgoingMessage],
        error: RemoteProtocolError | None,
    ) -> None:
        """See L{SessionProtocol.session_closed}."""
        self._report("closed", detail=reason.value + ("" if error is None else f": {error}"))
        super().session_closed(reason, unacknowledged, error)

    def messages_arriving(self, messages: Sequence[UserMessageView], first_recoverable: int) -> HookResult:
        """Choose the fault of each message, and act on it."""
        faults = [self._fault_of(message) for message in messages]
        if not any(faults):
            return super().messages_arriving(messages, first_recoverable)
        return self._misbehave(messages, faults, first_recoverable)

    def persisted(self, through: int) -> None:
        """Acknowledge, with the stored messages, those that were lost between and after them."""
        self._stored = max(self._stored, through)
        while self._stored + 1 in self._lost:
            self._stored += 1
        self._lost = {number for number in self._lost if number > self._stored}
        super().persisted(self._stored)

    def _fault_of(self, message: UserMessageView) -> Fault | None:
        fault = None
        described = message_json(message, is_kept=False)
        # Acknowledgements to the double itself are none of the tested system's messages.
        if not self.is_initiator and not is_for_order_queue(message.packet):
            fault = self._play.plan.fault_of(_facts(message, described))
        self._report("arrived", "" if fault is None else fault.action.value, message=described)
        return fault

    async def _misbehave(
        self, messages: Sequence[UserMessageView], faults: Sequence[Fault | None], first_recoverable: int
    ) -> None:
        run: list[UserMessageView] = []
        first = number = first_recoverable
        for message, fault in zip(messages, faults, strict=True):
            action = None if fault is None else fault.action
            if action in (FaultAction.DELAY, FaultAction.CLOSE, FaultAction.LOSE):
                await self._pass_on(run, first)
                run, first = [], number
            if self._is_ending:
                # It has ended while messages before this one were stored.
                return
            if action is FaultAction.CLOSE:
                self.cut(CloseReason.REFUSED)
                return
            if fault is not None and action is FaultAction.DELAY:
                self._delayed = deferLater(self._play.reactor, fault.seconds or 0.0)
                await self._delayed
                if not self.is_open:
                    return
            if fault is not None and action is FaultAction.REFUSE:
                self._refuse(message, fault)
            self._is_silent |= action is FaultAction.DROP_ACKNOWLEDGEMENTS
            self._is_corrupting |= action is FaultAction.CORRUPT
            if action is FaultAction.LOSE:
                if message.is_recoverable:
                    self._lost.add(number)
                    number += 1
                    if self._stored + 1 in self._lost:
                        self.persisted(self._stored)
                first = number
                continue
            run.append(message)
            number += message.is_recoverable
        await self._pass_on(run, first)

    def _refuse(self, message: UserMessageView, fault: Fault) -> None:
        reason = "the script of the double"
        if fault.refusal_class & _OF_RECEIPT:
            if len(self._play.rejected) < MOST_REFUSED:
                self._play.rejected[message.identity] = fault
        else:
            self._play.refusals.refuse(message, MessageRefusal(reason, fault.refusal_class))

    async def _pass_on(self, run: Sequence[UserMessageView], first: int) -> None:
        if not run:
            return
        stored = super().messages_arriving(run, first)
        if stored is not None:
            await stored

    def _write(self, chunks: Sequence[bytes], is_awaited: bool) -> None:
        """Write nothing while acknowledgements are dropped, and corrupt the next packet if that is due."""
        if self._is_silent:
            return
        if self._is_corrupting:
            self._is_corrupting = False
            chunks = [_corrupted(b"".join(chunks))]
        super()._write(chunks, is_awaited)

    def _report(
        self, kind: str, action: str = "", detail: str = "", message: dict[str, Any] | None = None
    ) -> None:
        self._play.report(
            DoubleEvent(kind, self._play.clock.now().wall, self.remote_address, action, detail, message)
        )


class DoublePingProtocol(ServerPingProtocol):
    """Answers pings as the script says."""

    def __init__(self, identifier: UUID, sessions: SessionFactory, clock: IClock, play: DoublePlay) -> None:
        super().__init__(identifier, sessions, clock)
        self._play = play
        self._answer = PeerAnswer.ACCEPT

    def datagramReceived(self, datagram: bytes, addr: tuple[str, int]) -> None:
        """Answer, refuse, or ignore one request."""
        self._answer = self._play.plan.ping_answer()
        self._play.report(DoubleEvent("ping", self._play.clock.now().wall, addr[0], self._answer.value))
        if self._answer is not PeerAnswer.IGNORE:
            super().datagramReceived(datagram, addr)

    def would_refuse(self, address: tuple[str, int]) -> bool:
        """Whether the script refuses this ping, or the handshake would refuse a session."""
        return self._answer is PeerAnswer.REFUSE or super().would_refuse(address)


def _corrupted(packet: bytes) -> bytes:
    """The packet with a signature that is not one, which no receiver accepts."""
    wrong = bytearray(packet)
    wrong[_SIGNATURE] = bytes(byte ^ 0xFF for byte in packet[_SIGNATURE])
    return bytes(wrong)


_KINDS: Final[Mapping[tuple[bool, bool], MessageKind]] = {
    (False, False): MessageKind.EXPRESS,
    (True, False): MessageKind.RECOVERABLE,
    (True, True): MessageKind.TRANSACTIONAL,
    (False, True): MessageKind.TRANSACTIONAL,
}


def _facts(message: UserMessageView, described: Mapping[str, Any]) -> MessageFacts:
    return MessageFacts(
        _queue_path(message) or str(described["destination_queue"]),
        message.label,
        _KINDS[message.is_recoverable, message.is_transactional],
    )


def _queue_path(message: UserMessageView) -> str:
    """The path of its queue in a direct name, without the computer; empty for other names."""
    text = getattr(message.destination, "text", None)
    if text is None:
        return ""
    try:
        return DirectFormatName.from_wire_text(text).queue_path
    except MQError:
        return ""
