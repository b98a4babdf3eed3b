"""Descriptions of Kerberos errors, each with a remedy."""

from __future__ import annotations

import enum
import re
from typing import Final

import attrs


class FailureKind(enum.Enum):
    """Kind of a failure, by its consequence."""

    AWAY = "away"
    """The same configuration may succeed later, for example if no domain controller was reached."""

    REFUSED = "refused"
    """The configuration, the account or a clock has to be changed."""


@attrs.frozen
class KerberosFailure:
    """Description of a failure for an administrator."""

    kind: FailureKind
    text: str


_MINOR: Final = re.compile(r"Minor \(\d+\): (.+)", re.DOTALL)

_WORDS: Final[tuple[tuple[str, FailureKind, str], ...]] = (
    (
        "contact any kdc",
        FailureKind.AWAY,
        "no domain controller of the realm {realm} answers Kerberos requests; check the network, port 88, and"
        " the kdc lines of krb5.conf",
    ),
    (
        "cannot find kdc|cannot resolve|cannot locate|no kdc",
        FailureKind.AWAY,
        "no domain controller of the realm {realm} is found; name it in krb5.conf, or see that DNS has"
        " _kerberos._udp.{realm}",
    ),
    (
        "server .*not found|server not found",
        FailureKind.REFUSED,
        "the realm {realm} has no service {service}; name the server in backend as its domain does, by its"
        " full host name and not by an address",
    ),
    (
        "client .*not found",
        FailureKind.REFUSED,
        "the realm {realm} has no account {principal}; principal is the logon name of a user, or NAME$ of a"
        " computer, and not a service's name",
    ),
    (
        "preauthentication failed|integrity check failed|password incorrect",
        FailureKind.REFUSED,
        "the key of {principal} in the keytab is not the account's current one; export the keytab again",
    ),
    (
        "clock skew|not yet valid",
        FailureKind.REFUSED,
        "the clocks of this computer and of the domain controller differ by more than the domain allows;"
        " synchronize this computer's clock",
    ),
    (
        "ticket expired|expired ticket",
        FailureKind.AWAY,
        "the tickets of {principal} have expired; the next connection requests others",
    ),
    (
        "password has expired|key has expired|credentials have expired",
        FailureKind.REFUSED,
        "the password of {principal} has expired; set another one, or let it not expire, and export the"
        " keytab again",
    ),
    (
        "revoked|entry in database has expired|locked",
        FailureKind.REFUSED,
        "the account {principal} is disabled, locked out or has expired; enable it in the domain",
    ),
    (
        "encryption type|etype",
        FailureKind.REFUSED,
        "the domain accepts no encryption type of the keys in the keytab; export the keytab with AES keys",
    ),
    (
        "no credentials cache|no suitable keys|key table entry not found|no key table entry",
        FailureKind.REFUSED,
        "the keytab has no usable key of {principal}; export it again",
    ),
)
"""Patterns of MIT Kerberos' texts; the first that is found counts."""


def describe_failure(said: str, principal: str, service: str) -> KerberosFailure:
    """Describe the failure of a GSSAPI call.

    @param said: the text of the exception.
    @param principal: C{NAME@REALM} of the account.
    @param service: the principal of the server.
    """
    found = _MINOR.search(said)
    text = " ".join((found[1] if found else said).split())
    for pattern, kind, words in _WORDS:
        if re.search(pattern, text, re.IGNORECASE):
            realm = principal.rpartition("@")[2]
            reason = words.format(principal=principal, service=service, realm=realm)
            return KerberosFailure(kind, f"{reason} ({text})")
    return KerberosFailure(FailureKind.REFUSED, f"Kerberos refuses {principal}: {text}")
