"""Default security descriptors of a new queue and of a queue manager. [MS-MQDMPR] 3.1.7.1.3.1.

The document computes the owner and then omits it from the result; here the result has owner and group
(reading 16).
SRMP is not implemented, so there are no entries for it.
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
    """Create Default Queue Security Descriptor. [MS-MQDMPR] 3.1.7.1.3.1.

    @param creator: the SID of the creator, which is the owner unless another is supplied.
    @param is_domain_user: whether the owner is a user in the directory.
    @param machine: MachineSid; empty if unknown.
    @param supplied: the application's descriptor, of which owner and lists are used if present.
    """
    owner = creator
    if supplied is not None and supplied.owner is not None:
        owner = supplied.owner
    if not is_domain_user:
        owner = ANONYMOUS
    dacl = None if supplied is None else supplied.dacl
    if dacl is None:
        is_outsider = not is_domain_user or is_guest(owner)
        aces = [allow(EVERYONE, _ALL if is_outsider else _LOOK)]
        if machine:
            aces.append(allow(machine, _LOOK))
        if not is_outsider:
            aces.append(allow(owner, _ALL))
        dacl = Acl(tuple(aces))
    return SecurityDescriptor(owner, owner, dacl, None if supplied is None else supplied.sacl)


def strict_security(creator: bytes, supplied: SecurityDescriptor | None = None) -> SecurityDescriptor:
    """A descriptor that grants access to the owner only."""
    owner = creator
    if supplied is not None and supplied.owner is not None:
        owner = supplied.owner
    if supplied is not None and supplied.dacl is not None:
        return SecurityDescriptor(owner, owner, supplied.dacl, supplied.sacl)
    return SecurityDescriptor(owner, owner, Acl((allow(owner, _ALL),)))


def queue_manager_security(owner: bytes, machine: bytes = b"") -> SecurityDescriptor:
    """The security descriptor of a queue manager. [MS-MQDSSM] 3.1.6.1.1.8.

    Every account may read its properties; its owner and its computer have all rights.
    """
    everything = QueueManagerAccess.MQSEC_MACHINE_GENERIC_ALL
    aces = [allow(EVERYONE, QueueManagerAccess.MQSEC_MACHINE_WORLD_RIGHTS), allow(owner, everything)]
    if machine:
        aces.insert(1, allow(machine, everything))
    return SecurityDescriptor(owner, owner, Acl(tuple(aces)))
