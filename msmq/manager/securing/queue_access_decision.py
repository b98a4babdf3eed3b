"""One access check against the protection of a queue. [MS-MQQB] 3.1.5.8.3."""

from __future__ import annotations

import attrs
from twisted.internet.defer import Deferred

from msmq.interfaces.access import IAccessControl
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


def judge(
    access: IAccessControl, protection: Protection, sid: bytes, asked: int, kind: ObjectKind
) -> QueueAccessDecision | Deferred[QueueAccessDecision]:
    """Check one account's rights; a Deferred only if the account has to be looked up in a directory.

    A right to messages has to be granted by the limit of the protection as well, if it has one.

    @raise AccountUnknown: in the Deferred, as of L{IAccessControl.check}.
    """
    decision = access.check(protection.descriptor or SecurityDescriptor(), sid, asked, kind)
    if isinstance(decision, Deferred):
        return Deferred.fromCoroutine(_judge_later(decision, access, protection, sid, asked))
    judgement = QueueAccessDecision(decision, protection.source)
    if not decision.granted or protection.limit is None or not asked & MESSAGE_RIGHTS:
        return judgement
    limited = access.check(protection.limit, sid, asked & MESSAGE_RIGHTS, QUEUE_KIND)
    if isinstance(limited, Deferred):
        return limited.addCallback(_limited, judgement)
    return _limited(limited, judgement)


async def _judge_later(
    checking: Deferred[AccessDecision],
    access: IAccessControl,
    protection: Protection,
    sid: bytes,
    asked: int,
) -> QueueAccessDecision:
    judgement = QueueAccessDecision(await checking, protection.source)
    if not judgement.granted or protection.limit is None or not asked & MESSAGE_RIGHTS:
        return judgement
    limited = access.check(protection.limit, sid, asked & MESSAGE_RIGHTS, QUEUE_KIND)
    return _limited(limited if isinstance(limited, AccessDecision) else await limited, judgement)


def _limited(limited: AccessDecision, judgement: QueueAccessDecision) -> QueueAccessDecision:
    return judgement if limited.granted else QueueAccessDecision(limited, IN_THE_DIRECTORY)
