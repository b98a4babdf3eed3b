"""The caller of a request to the web endpoint."""

from __future__ import annotations

import hmac
from typing import Final

import attrs

from msmq.control.authentication.roles import Role

READ_ONLY: Final = "[security] control_token_file is not set"
"""The reason why a local caller without a token changes nothing."""


@attrs.frozen
class Identity:
    """The caller of a request.

    @ivar name: the name of the token, as the audit log shows it.
    @ivar role: the rights.
    @ivar csrf: the token that a change by this caller must repeat, since its browser sends the cookie by
        itself; empty for callers without a cookie.
    @ivar read_only: why the caller changes nothing, whatever its role; empty otherwise.
    @ivar digest: the digest of the token of the caller; C{None} for a local caller without one.
    @ivar session: the key of its session; C{None} for a caller without a cookie.
    """

    name: str
    role: Role
    csrf: str = attrs.field(default="", repr=False)
    read_only: str = ""
    digest: bytes | None = attrs.field(default=None, repr=False)
    session: bytes | None = attrs.field(default=None, repr=False)

    def may(self, role: Role) -> bool:
        """Whether its role includes another one."""
        return self.role >= role

    def confirms(self, csrf: str) -> bool:
        """Whether a change with this CSRF token is the caller's own; compared in constant time."""
        return not self.csrf or hmac.compare_digest(self.csrf.encode(), csrf.encode())


def local_caller(role: Role) -> Identity:
    """Any process of this computer, at a loopback endpoint without tokens."""
    return Identity(f"local {role} ({READ_ONLY})", role, read_only=READ_ONLY)
