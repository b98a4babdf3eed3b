"""Security: the security checks of arriving messages, in order. [MS-MQQB] 3.1.5.8.3.

The steps run in order, each on the messages that passed the previous one: unauthenticated senders, the
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
from msmq.line_limit import LineLimit
from msmq.moment import Moment
from msmq.queues.queue import Queue
from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.security_header import SecurityHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message_rewrites import (
    patch_authentication_level,
    without_acknowledgements,
)
from msmq.structures.packet.user_message_view import UserMessageView

PATIENCE: Final = 30.0
"""Seconds for which a batch waits for the results of its checks."""

LINES: Final = 2
"""Errors of a step that are logged in a minute: each message of a peer may cause one."""

_SECURITY_HEADER: Final = UserHeader.SH


@attrs.frozen
class Accepted:
    """A message that has passed all checks so far.

    @ivar view: the message, which a step may have rewritten.
    @ivar security: its SecurityHeader, if it has one.
    @ivar authentication: the result of verifying its signature; set only by a step here.
    @ivar sender: the SID of its authenticated sender, or the GUID of the queue manager that signed it.
    @ivar unreadable: why its body, which is still encrypted, cannot be decrypted; such a message is refused
    after the check of its signature.
    @ivar alternatives: the message with the other clear bodies that its encrypted body may stand for; of a
    signed message only, whose signature decides.
    """

    view: UserMessageView
    security: SecurityHeader | None
    authentication: AuthenticationLevel = AuthenticationLevel.NONE
    sender: bytes | None = None
    unreadable: str | None = None
    alternatives: tuple[UserMessageView, ...] = ()

    @property
    def is_signed(self) -> bool:
        """Whether it has a signature, valid or not."""
        if self.security is not None and self.security.signature:
            return True
        multi_queue = self.view.multi_queue_format
        return multi_queue is not None and bool(multi_queue.signature.signature)


@attrs.frozen
class Refused:
    """A refused message.

    @ivar message_class: of the negative acknowledgement.
    @ivar reason: a sentence with the right, certificate, algorithm or configuration line that caused the
    refusal.
    @ivar sender: its authenticated sender, as of L{Accepted}, if it was refused for another reason.
    @ivar precedes_queue: its peer or the policy of its session is the reason, so that no rule of its queue
    comes before; all other security comes after the type of the queue (reading 63).
    """

    message_class: MessageClass
    reason: str
    sender: bytes | None = None
    precedes_queue: bool = False

    @property
    def is_authenticated(self) -> bool:
        """Whether its sender is authenticated."""
        return self.sender is not None


Outcome: TypeAlias = Accepted | Refused
Answer: TypeAlias = Outcome | Deferred[Accepted] | Deferred[Refused] | Deferred[Outcome]


class SecurityStep(Protocol):
    """One check of messages for local queues.

    @ivar name: for an operator: C{the access check}, for example.
    @ivar message_class: of the refusal of a message that it could not check in time, or at all.
    """

    name: str
    message_class: MessageClass

    def guards(self, session: ISession, queue: Queue) -> bool:
        """Whether messages without a SecurityHeader have to be checked; called for each batch, so it must be
        fast.

        @param session: the session on which the message came.
        @param queue: its destination queue.
        """

    def check(self, session: ISession, queue: Queue, message: Accepted) -> Answer:
        """Accept or refuse a message of this session for this queue.

        Later messages of the session wait for the result, at most L{PATIENCE} seconds.
        """


@attrs.frozen
class Inspection:
    """The results of the checks of a batch.

    @ivar messages: all of them, in order, as rewritten by the steps.
    @ivar refused: the refusals of some of these.
    """

    messages: Sequence[UserMessageView]
    refused: Mapping[UserMessageView, Refused]


class ReplyCheck(Protocol):
    """Checks the destinations of requested acknowledgements."""

    def concern(self, message: UserMessageView) -> bool:
        """Whether the destination of a message's acknowledgements has to be checked."""

    def check(self, session: ISession, queue: Queue, message: Accepted) -> Answer:
        """Accept a message, without the requests that its sender is not permitted."""

    def silenced(self, message: UserMessageView) -> UserMessageView:
        """A message of an unauthenticated sender, without the requests that are not permitted."""


class Inspector:
    """Runs the steps on arriving messages.

    @ivar steps: in the order of evaluation; set once, before the first message arrives.
    @param replies: checks the destinations of requested acknowledgements.
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
        self._lines = LineLimit.a_minute(LINES)

    def concerns(
        self, session: ISession, different: Sequence[UserMessageView], queues: Sequence[Queue | None]
    ) -> bool:
        """Whether messages need L{inspect}.

        @param different: the messages, or only those whose headers differ.
        @param queues: the local queue of each message.
        """
        asking = [each for each in different if each.acknowledge or each.flags & _SECURITY_HEADER]
        for message in asking:
            if message.flags & _SECURITY_HEADER or self._asks(message):
                return True
        for queue in set(queues):
            if queue is not None and self._is_guarded(session, queue):
                return True
        return False

    async def inspect(
        self,
        session: ISession,
        messages: Sequence[UserMessageView],
        queues: Sequence[Queue | None],
        known: Mapping[UserMessageView, Refused],
    ) -> Inspection:
        """Check these messages, one after the other.

        It does not wait unless a step does. Claims of the peer about its own signatures are removed.

        @param known: those that are refused already, and are not checked.
        """
        deadline = self._reactor.seconds() + self._patience
        found: list[UserMessageView] = []
        refused: dict[UserMessageView, Refused] = {}
        for message, queue in zip(messages, queues, strict=True):
            view = message
            if message in known:
                view = self._silenced(message)
                refused[view] = known[message]
            elif queue is None:
                if message.flags & _SECURITY_HEADER:
                    view = patch_authentication_level(message, AuthenticationLevel.NONE)
                view = self._silenced(view)
            elif message.flags & _SECURITY_HEADER or self._asks(message) or self._is_guarded(session, queue):
                outcome = await self._ask(session, queue, Accepted(message, message.security), deadline)
                if isinstance(outcome, Refused):
                    view = await self._answerable(session, queue, message, outcome, deadline)
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

    async def _answerable(
        self, session: ISession, queue: Queue, message: UserMessageView, refused: Refused, deadline: float
    ) -> UserMessageView:
        """A refused message, without the acknowledgements that its sender may not put into a queue here."""
        if refused.sender is None or not message.acknowledge:
            return self._silenced(message)
        asked = Accepted(message, message.security, sender=refused.sender)
        try:
            answer = self._replies.check(session, queue, asked)
            outcome = await self._wait(answer, deadline) if isinstance(answer, Deferred) else answer
        except (TimeoutError, CancelledError):
            return without_acknowledgements(message)
        except Exception:
            self._log_failure(message)
            return without_acknowledgements(message)
        return outcome.view if isinstance(outcome, Accepted) else without_acknowledgements(message)

    def _is_guarded(self, session: ISession, queue: Queue) -> bool:
        # Asked for each batch of messages: a generator takes as long as the steps.
        for step in self.steps:
            if step.guards(session, queue):
                return True
        return False

    async def _ask(self, session: ISession, queue: Queue, message: Accepted, deadline: float) -> Outcome:
        for step in self.steps:
            try:
                answer = step.check(session, queue, message)
                outcome = await self._wait(answer, deadline) if isinstance(answer, Deferred) else answer
            except TimeoutError:
                return Refused(
                    step.message_class, f"{step.name} got no answer within {self._patience:g} seconds"
                )
            except CancelledError:
                return Refused(
                    step.message_class, f"{step.name} was not completed: the queue manager stopped"
                )
            except Exception as error:
                # A failure there must neither close the session nor accept the message.
                self._log_failure(message.view)
                return Refused(step.message_class, f"{step.name} failed: {type(error).__name__}")
            if isinstance(outcome, Refused):
                return attrs.evolve(outcome, sender=message.sender)
            message = outcome
        if message.unreadable is not None:
            # There may be no step that verifies signatures.
            return Refused(MessageClass.NACK_BAD_ENCRYPTION, message.unreadable)
        if queue.definition.authenticate and message.authentication is AuthenticationLevel.NONE:
            # No step has authenticated or admitted it.
            return Refused(
                MessageClass.NACK_BAD_SIGNATURE,
                f"{queue.definition.path} accepts only authenticated messages, and this one is not",
            )
        return message

    def _log_failure(self, message: UserMessageView) -> None:
        now = Moment(monotonic=self._reactor.seconds(), wall=self._reactor.seconds())
        if (others := self._lines.take(now)) is not None:
            self.log.failure(
                "message {message} could not be checked{others}", message=message.identifier, others=others
            )

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
