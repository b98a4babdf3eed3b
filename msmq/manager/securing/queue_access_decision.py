"""One access check against the protection of a queue. [MS-MQQB] 3.1.5.8.3."""

from __future__ import annotations

import attrs
from twisted.internet.defer import Deferred

from msmq.interfaces.security.access import IAccessControl
from msmq.manager.securing.protection import Protection
from msmq.manager.securing.public_descriptors import IN_THE_DIRECTORY
from msmq.membership.rights import MESSAGE_RIGHTS
from msmq.windows.access_check import AccessDecision
from msmq.windows.access_masks import QUEUE_KIND, ObjectKind
from msmq.windows.security_descriptor import SecurityDescriptor


@attrs.frozen
class QueueAccessDecision:
    """A decision, and its source.

    @ivar source: where the descriptor that decided is stored.
    """

    decision: AccessDecision
    source: str

    @property
    def granted(self) -> bool:
        """Whether all requested rights are granted."""
        return self.decision.granted

    def why(self) -> str:
        """The deciding entry and its source, in a sentence."""
        return f"{self.decision.why()}, by {self.source}"


def decide_access(
    access: IAccessControl, protection: Protection, sid: bytes, asked: int, kind: ObjectKind
) -> QueueAccessDecision | Deferred[QueueAccessDecision]:
    """Check one account's rights; a Deferred only if the account has to be looked up in a directory.

    A right to messages has to be granted by the limit of the protection as well, if it has one.

    @raise AccountUnknown: in the Deferred, as of L{IAccessControl.check}.
    """
    decision = access.check(protection.descriptor or SecurityDescriptor(), sid, asked, kind)
    if isinstance(decision, Deferred):
        return Deferred.fromCoroutine(_decide_later(decision, access, protection, sid, asked))
    access_decision = QueueAccessDecision(decision, protection.source)
    if not decision.granted or protection.limit is None or not asked & MESSAGE_RIGHTS:
        return access_decision
    limited = access.check(protection.limit, sid, asked & MESSAGE_RIGHTS, QUEUE_KIND)
    if isinstance(limited, Deferred):
        return limited.addCallback(_limited, access_decision)
    return _limited(limited, access_decision)


async def _decide_later(
    checking: Deferred[AccessDecision],
    access: IAccessControl,
    protection: Protection,
    sid: bytes,
    asked: int,
) -> QueueAccessDecision:
    access_decision = QueueAccessDecision(await checking, protection.source)
    if not access_decision.granted or protection.limit is None or not asked & MESSAGE_RIGHTS:
        return access_decision
    limited = access.check(protection.limit, sid, asked & MESSAGE_RIGHTS, QUEUE_KIND)
    return _limited(limited if isinstance(limited, AccessDecision) else await limited, access_decision)


def _limited(limited: AccessDecision, access_decision: QueueAccessDecision) -> QueueAccessDecision:
    return access_decision if limited.granted else QueueAccessDecision(limited, IN_THE_DIRECTORY)
