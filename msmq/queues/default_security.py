"""[MS-MQDMPR] 3.1.7.1.3.1 the security descriptor of a queue that is new, or of a queue manager.

The document computes the owner and then leaves it out of what it answers; it is put in here, as the group too
(reading 16).
SRMP is not implemented, so nothing is allowed for it.
"""

from __future__ import annotations

from typing import Final

from msmq.windows.access_masks import QueueAccess, QueueManagerAccess
from msmq.windows.security_descriptor import SecurityDescriptor, allow
from msmq.windows.security_descriptor_aces import Acl
from msmq.windows.well_known_sids import ANONYMOUS, EVERYONE, is_guest

_ALL: Final = QueueAccess.MQSEC_QUEUE_GENERIC_ALL
_LOOK: Final = QueueAccess.MQSEC_GET_QUEUE_PROPERTIES | QueueAccess.MQSEC_GET_QUEUE_PERMISSIONS


def documented_security(
    creator: bytes,
    *,
    is_domain_user: bool,
    machine: bytes = b"",
    supplied: SecurityDescriptor | None = None,
) -> SecurityDescriptor:
    """[MS-MQDMPR] 3.1.7.1.3.1 Create Default Queue Security Descriptor.

    @param creator: the SID in whose name the queue is made; it owns it unless another owner is supplied.
    @param is_domain_user: whether the directory knows the owner as a user.
    @param machine: MachineSid; empty if unknown.
    @param supplied: what the application gives: its owner, and its lists as far as it has any.
    """
    owner = creator
    if supplied is not None and supplied.owner is not None:
        owner = supplied.owner
    if not is_domain_user:
        owner = ANONYMOUS
    dacl = None if supplied is None else supplied.dacl
    if dacl is None:
        is_stranger = not is_domain_user or is_guest(owner)
        aces = [allow(EVERYONE, _ALL if is_stranger else _LOOK)]
        if machine:
            aces.append(allow(machine, _LOOK))
        if not is_stranger:
            aces.append(allow(owner, _ALL))
        dacl = Acl(tuple(aces))
    return SecurityDescriptor(owner, owner, dacl, None if supplied is None else supplied.sacl)


def strict_security(creator: bytes, supplied: SecurityDescriptor | None = None) -> SecurityDescriptor:
    """A descriptor that lets the owner alone do anything."""
    owner = creator
    if supplied is not None and supplied.owner is not None:
        owner = supplied.owner
    if supplied is not None and supplied.dacl is not None:
        return SecurityDescriptor(owner, owner, supplied.dacl, supplied.sacl)
    return SecurityDescriptor(owner, owner, Acl((allow(owner, _ALL),)))


def queue_manager_security(owner: bytes, machine: bytes = b"") -> SecurityDescriptor:
    """[MS-MQDSSM] 3.1.6.1.1.8 the descriptor of a queue manager itself.

    Every account may read its properties; its owner and its computer have all rights.
    """
    everything = QueueManagerAccess.MQSEC_MACHINE_GENERIC_ALL
    aces = [allow(EVERYONE, QueueManagerAccess.MQSEC_MACHINE_WORLD_RIGHTS), allow(owner, everything)]
    if machine:
        aces.insert(1, allow(machine, everything))
    return SecurityDescriptor(owner, owner, Acl(tuple(aces)))
