"""[MS-MQQB] 3.1.5.8.3 Security: the security checks of arriving messages, in order.

The steps run in order, each on the messages that the previous one has left: unauthenticated senders, the
requirements of the queue, decryption, the signature with its certificate, the access check.
A message without a SecurityHeader for an unprotected queue passes without inspection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import attrs
from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from msmq.interfaces.session import ISession
from msmq.queues.queue import Queue
from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.security_header import SecurityHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message_rewrites import patch_authentication_level
from msmq.structures.packet.user_message_view import UserMessageView

PATIENCE: Final = 30.0
"""Seconds for which messages that arrived together wait for the results of their checks."""

_SECURITY_HEADER: Final = UserHeader.SH


@attrs.frozen
class Accepted:
    """A message that nothing was found against so far.

    @ivar view: the message as it goes on; a step may have rewritten it.
    @ivar security: its SecurityHeader, if it has one.
    @ivar authentication: what its signature was found to be; only a step of ours sets it.
    @ivar sender: the SID of its sender, if that was proven, or the GUID of the queue manager that signed it.
    @ivar unreadable: why its body, which is still encrypted, cannot be decrypted; such a message is refused
        once its signature was looked at.
    """

    view: UserMessageView
    security: SecurityHeader | None
    authentication: AuthenticationLevel = AuthenticationLevel.NONE
    sender: bytes | None = None
    unreadable: str | None = None

    @property
    def is_signed(self) -> bool:
        """Whether a signature came with it, be it right or wrong."""
        if self.security is not None and self.security.signature:
            return True
        multi_queue = self.view.multi_queue_format()
        return multi_queue is not None and bool(multi_queue.signature.signature)


@attrs.frozen
class Refused:
    """A message that is not taken.

    @ivar message_class: of the negative acknowledgement.
    @ivar reason: a sentence that names the right, certificate, algorithm or line of the configuration that
        it failed on.
    @ivar is_authenticated: its sender is authenticated, and it was refused for another reason.
    """

    message_class: MessageClass
    reason: str
    is_authenticated: bool = False


Outcome: TypeAlias = Accepted | Refused
Answer: TypeAlias = Outcome | Deferred[Accepted] | Deferred[Refused] | Deferred[Outcome]


class SecurityStep(Protocol):
    """One thing that is asked of messages for our queues.

    @ivar message_class: of the refusal of a message that it could not check in time, or at all.
    """

    message_class: MessageClass

    def guards(self, session: ISession, queue: Queue) -> bool:
        """Whether messages without a SecurityHeader are asked as well; called for each batch, so it is quick.

        @param session: that the message came by.
        @param queue: that it is for.
        """

    def check(self, session: ISession, queue: Queue, message: Accepted) -> Answer:
        """What becomes of a message that came by this session for this queue.

        Messages that come behind it on its session wait as long as it takes, but no longer than L{PATIENCE}.
        """


@attrs.frozen
class Inspection:
    """What was found of messages that arrived together.

    @ivar messages: all of them, in their order, as they go on.
    @ivar refused: why some of these are not taken.
    """

    messages: Sequence[UserMessageView]
    refused: Mapping[UserMessageView, Refused]


class ReplyCheck(Protocol):
    """Looks where acknowledgements would go."""

    def concern(self, message: UserMessageView) -> bool:
        """Whether a message has to be asked about for where acknowledgements of it would go."""

    def silenced(self, message: UserMessageView) -> UserMessageView:
        """A message of whose sender nothing is known, without what it may not ask for."""


class Inspector:
    """Asks the steps about what arrives.

    @ivar steps: in the order in which they are asked; set once, before anything arrives.
    @param replies: where acknowledgements would go that a message asks for.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        reactor: IReactorTime,
        steps: Sequence[SecurityStep],
        replies: ReplyCheck,
        patience: float = PATIENCE,
    ) -> None:
        self.steps = tuple(steps)
        self._replies = replies
        self._reactor = reactor
        self._patience = patience
        self._waiting: set[Deferred[Any]] = set()

    def concerns(
        self, session: ISession, messages: Sequence[UserMessageView], queues: Sequence[Queue | None]
    ) -> bool:
        """Whether L{inspect} has to be called for these messages at all.

        @param queues: the queue of ours that each of them is for.
        """
        for message in messages:
            if message.flags & _SECURITY_HEADER or self._asks(message):
                return True
        for queue in set(queues):
            if queue is not None and self._is_guarded(session, queue):
                return True
        return False

    async def inspect(
        self, session: ISession, messages: Sequence[UserMessageView], queues: Sequence[Queue | None]
    ) -> Inspection:
        """Ask about these messages, one after the other.

        It does not wait unless a step does. Nothing is left of what the peer says of its own signatures.
        """
        deadline = self._reactor.seconds() + self._patience
        found: list[UserMessageView] = []
        refused: dict[UserMessageView, Refused] = {}
        for message, queue in zip(messages, queues, strict=True):
            view = message
            if queue is None:
                if message.flags & _SECURITY_HEADER:
                    view = patch_authentication_level(message, AuthenticationLevel.NONE)
                view = self._silenced(view)
            elif message.flags & _SECURITY_HEADER or self._asks(message) or self._is_guarded(session, queue):
                outcome = await self._ask(session, queue, Accepted(message, message.security()), deadline)
                if isinstance(outcome, Refused):
                    view = self._silenced(message)
                    refused[view] = outcome
                else:
                    view = outcome.view
                    if view.flags & _SECURITY_HEADER:
                        view = patch_authentication_level(view, outcome.authentication)
            found.append(view)
        return Inspection(found, refused)

    def stop(self) -> None:
        """Cancel all pending inspections."""
        for waiting in tuple(self._waiting):
            waiting.cancel()

    def _asks(self, message: UserMessageView) -> bool:
        return message.acknowledge != 0 and self._replies.concern(message)

    def _silenced(self, message: UserMessageView) -> UserMessageView:
        return self._replies.silenced(message)

    def _is_guarded(self, session: ISession, queue: Queue) -> bool:
        return any(step.guards(session, queue) for step in self.steps)

    async def _ask(self, session: ISession, queue: Queue, message: Accepted, deadline: float) -> Outcome:
        for step in self.steps:
            try:
                answer = step.check(session, queue, message)
                outcome = await self._wait(answer, deadline) if isinstance(answer, Deferred) else answer
            except (TimeoutError, CancelledError):
                return Refused(
                    step.message_class,
                    f"{_name(step)} got no answer about it within {self._patience:g} seconds",
                )
            except Exception as error:
                # Whatever goes wrong there, the session must not suffer for it, nor the message pass.
                self.log.failure("message {message} could not be judged", message=message.view.identifier)
                return Refused(
                    step.message_class,
                    f"{_name(step)} could not tell about it: {type(error).__name__}",
                )
            if isinstance(outcome, Refused):
                return attrs.evolve(outcome, is_authenticated=message.sender is not None)
            message = outcome
        if message.unreadable is not None:
            # There may be no step that looks at signatures.
            return Refused(MessageClass.NACK_BAD_ENCRYPTION, message.unreadable)
        if queue.definition.authenticate and message.authentication is AuthenticationLevel.NONE:
            # No step has authenticated or admitted it.
            return Refused(
                MessageClass.NACK_BAD_SIGNATURE,
                f"{queue.definition.path} takes only authenticated messages, and this one is not",
            )
        return message

    async def _wait(self, answer: Deferred[Any], deadline: float) -> Outcome:
        if answer.called:
            outcome: Outcome = await answer
            return outcome
        self._waiting.add(answer)
        try:
            answer.addTimeout(max(0.0, deadline - self._reactor.seconds()), self._reactor)
            outcome = await answer
            return outcome
        finally:
            self._waiting.discard(answer)


def _name(step: SecurityStep) -> str:
    return type(step).__name__.lower()
