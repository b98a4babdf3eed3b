"""Access check of an arriving message against the descriptor of its queue. [MS-MQQB] 3.1.5.8.3."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from msmq.interfaces.security.access import AccountUnknown, Ruling
from msmq.interfaces.session import ISession
from msmq.manager.securing.inspection import Accepted, Answer, Outcome, Refused
from msmq.manager.securing.protection import Protection
from msmq.manager.securing.queue_access_decision import QueueAccessDecision, decide_access
from msmq.manager.securing.security_descriptors import SecurityDescriptors, protected_queue
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.queues.queue import Queue
from msmq.structures.packet.message_class import MessageClass
from msmq.transfer.security.sender_identity import account_of
from msmq.windows.access_masks import QUEUE_KIND, QueueAccess
from msmq.windows.security_descriptor import SecurityDescriptor
from msmq.windows.well_known_sids import ANONYMOUS

_WRITE = int(QueueAccess.MQSEC_WRITE_MESSAGE)
_MOST_OPEN = 10_000


class QueueAccessCheck:
    """The last check of a message before its queue.

    An identifier in a message does not authenticate its sender, so an unauthenticated sender is anonymous
    (readings 70 and 78).

    @param descriptors: has the protection of each queue; C{None} without access control.
    """

    name = "the access check"
    message_class = MessageClass.NACK_ACCESS_DENIED

    def __init__(self, trusted_peers: TrustedPeers, descriptors: SecurityDescriptors | None = None) -> None:
        self._trusted_peers = trusted_peers
        self._descriptors = descriptors
        self._open: dict[tuple[str, bytes], tuple[Ruling | None, bool]] = {}

    @property
    def has_descriptors(self) -> bool:
        """Whether there is access control, so that a queue may be closed to a sender."""
        return self._descriptors is not None

    def guards(self, session: ISession, queue: Queue) -> bool:
        """Whether an unauthenticated message may be refused."""
        return self._trusted_peers.guards(session, queue) or not self.is_open(queue)

    def check(self, session: ISession, queue: Queue, message: Accepted) -> Answer:
        """Refuse unauthenticated messages from untrusted addresses, and senders without write access."""
        sender = _sender(message)
        if sender is None and not self._trusted_peers.admits(session.remote_address):
            reason = self._trusted_peers.refusal(session.remote_address)
            return Refused(self.message_class, reason, precedes_queue=True)
        return self.check_access(queue, message)

    def check_access(self, queue: Queue, message: Accepted) -> Answer:
        """Check whether the sender of a message may write to a queue."""
        descriptors = self._descriptors
        if descriptors is None:
            return message
        sender = _sender(message)
        who = ANONYMOUS if sender is None else sender
        protection = descriptors.of(queue)
        if isinstance(protection, Deferred):
            return Deferred.fromCoroutine(self._ask(protection, queue, who, message))
        if _is_unprotected(descriptors, protection):
            return message
        decision = decide_access(descriptors.access, protection, who, _WRITE, QUEUE_KIND)
        if isinstance(decision, Deferred):
            return Deferred.fromCoroutine(self._outcome_later(decision, protection, queue, message))
        return self._outcome(decision, message)

    async def _ask(self, asked: Deferred[Protection], queue: Queue, who: bytes, message: Accepted) -> Outcome:
        descriptors = self._descriptors
        assert descriptors is not None
        protection = await asked
        if _is_unprotected(descriptors, protection):
            return message
        decision = decide_access(descriptors.access, protection, who, _WRITE, QUEUE_KIND)
        if isinstance(decision, Deferred):
            return await self._outcome_later(decision, protection, queue, message)
        return self._outcome(decision, message)

    async def _outcome_later(
        self,
        decision: Deferred[QueueAccessDecision],
        protection: Protection,
        queue: Queue,
        message: Accepted,
    ) -> Outcome:
        try:
            outcome = self._outcome(await decision, message)
        except AccountUnknown as error:
            return Refused(self.message_class, str(error))
        assert self._descriptors is not None
        current = self._descriptors.of(queue)
        if isinstance(current, Deferred):
            current = await current
        if current == protection:
            return outcome
        # The rights were changed while the account was looked up, which may take long.
        answer = self.check_access(queue, message)
        return await answer if isinstance(answer, Deferred) else answer

    def is_open(self, queue: Queue) -> bool:
        """Whether every account may write to it; cached, since each arrival needs it.

        A rule that a reload has changed is another object, and a decision that is a Deferred is not cached as
        open: an access control whose decisions depend on more than the descriptor answers so.
        """
        if self._descriptors is None:
            return True
        if self._descriptors.has_to_ask(queue):
            return False
        definition = protected_queue(queue).definition
        key = (definition.path, definition.security)
        ruling = self._descriptors.access.ruling(definition.path)
        known = self._open.get(key)
        if known is not None and known[0] is ruling:
            return known[1]
        if len(self._open) >= _MOST_OPEN:
            self._open.clear()
        is_open = self._decide_open(self._descriptors, queue)
        self._open[key] = ruling, is_open
        return is_open

    @staticmethod
    def _decide_open(descriptors: SecurityDescriptors, queue: Queue) -> bool:
        protection = descriptors.of(queue)
        return not isinstance(protection, Deferred) and _is_granted_now(descriptors, protection)

    def _outcome(self, decision: QueueAccessDecision, message: Accepted) -> Outcome:
        if decision.granted:
            return message
        return Refused(self.message_class, decision.why())


def _is_unprotected(descriptors: SecurityDescriptors, protection: Protection) -> bool:
    """Whether no account has to be looked up, since the queue has no descriptor, and no rule.

    An access control whose decisions depend on more than the descriptor decides about such a queue as well.
    """
    return (
        protection.descriptor is None
        and protection.limit is None
        and _is_granted_now(descriptors, protection)
    )


def _is_granted_now(descriptors: SecurityDescriptors, protection: Protection) -> bool:
    """Whether the anonymous account may write, without a Deferred."""
    descriptor = protection.descriptor or SecurityDescriptor()
    decision = descriptors.access.check(descriptor, ANONYMOUS, _WRITE, QUEUE_KIND)
    if isinstance(decision, Deferred):
        decision.addErrback(lambda _: None)
        return False
    return decision.granted


def _sender(message: Accepted) -> bytes | None:
    security = message.security
    return account_of(message.sender, None if security is None else security.sender_id_type)
