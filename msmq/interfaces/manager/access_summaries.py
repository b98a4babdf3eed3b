"""Summaries of access rights and certificates, as values for programs and people.

The control API renders each as one JSON object whose keys are the names of the fields, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from msmq.interfaces.manager.summaries import TIME


@attrs.frozen
class AccessEntry:
    """One entry of an access control list. [MS-DTYP] 2.4.4.

    @ivar action: C{allow}, C{deny}, C{allow if}, C{deny if}, or the type
        of an entry that this queue manager does not evaluate.
    @ivar principal: the SID; C{None} where the entry has none, as C{name} then is.
    @ivar rights: the words of the rights in C{mask}.
    @ivar inherited: C{None} for an entry without a SID, as is C{inherit_only}.
    @ivar condition: only of C{allow if} and C{deny if}; C{None} if it cannot be written as text.
    """

    action: str
    principal: str | None
    name: str | None
    rights: Sequence[str]
    mask: int
    inherited: bool | None = None
    inherit_only: bool | None = None
    condition: str | None = None

    @property
    def is_conditional(self) -> bool:
        """Whether it applies only where its condition holds."""
        return self.action in ("allow if", "deny if")


@attrs.frozen
class AccessList:
    """The rights of accounts to a queue, or to the queue manager.

    @ivar queue: the path; C{.} for the queue manager.
    @ivar source: where the list is stored.
    @ivar owner: a name, or a SID.
    @ivar everything: whether there is no list, so that every access is granted.
    @ivar differences: how the directory's list of a public queue differs, a text each.
    @ivar entries: in the order in which they are evaluated.
    @ivar sddl: the whole descriptor; C{None} if SDDL cannot express it.
    """

    queue: str
    source: str
    owner: str | None
    everything: bool
    differences: Sequence[str]
    entries: Sequence[AccessEntry]
    sddl: str | None


@attrs.frozen
class AccessVerdict:
    """Whether a principal has a right, and what decides it.

    @ivar principal: the SID.
    @ivar groups: the names of the principal's groups.
    @ivar unauthenticated: for sending without authentication, the setting for accepted addresses, which is
    evaluated before the list; otherwise C{None}.
    @ivar demanded: what the queue requires of such a message first; C{None} if nothing.
    """

    queue: str
    principal: str
    name: str | None
    right: str
    granted: bool
    reason: str
    source: str
    groups: Sequence[str]
    unauthenticated: str | None = None
    demanded: str | None = None


@attrs.frozen(kw_only=True)
class CertificateSummary:
    """A certificate that messages can be signed with, without its key.

    @ivar fingerprint: SHA-256 in hex digits.
    @ivar not_before: seconds since 1970-01-01 UTC, as C{not_after} is.
    @ivar key: the type of the key and its bits.
    @ivar sid: the user.
    @ivar internal: [MS-MQDMPR] 3.1.1.19: whether it is the internal certificate of the user.
    @ivar valid: whether it is valid now.
    @ivar certificate: the DER.
    """

    fingerprint: str
    subject: str
    issuer: str
    serial_number: str
    not_before: float = attrs.field(metadata=TIME)
    not_after: float = attrs.field(metadata=TIME)
    key: str
    sid: str
    internal: bool
    valid: bool
    certificate: bytes = attrs.field(repr=False)
