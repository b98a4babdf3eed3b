"""State of a SASL bind of several steps, independent of sockets and Kerberos. RFC 4513 5.2.1.3."""

from __future__ import annotations

from typing import Final

import attrs

from msmq.directory.ldap.transport.results import SASL_BIND_IN_PROGRESS, SUCCESS, describe
from msmq.directory.ldap.transport.wire import Result
from msmq.errors import MsmqError

MECHANISM: Final = "GSS-SPNEGO"
"""The SASL mechanism, which Active Directory and Samba offer. [MS-ADTS] 3.1.1.3.4.5.2."""

MOST_ROUNDS: Final = 8
"""Limit on the steps of one exchange; Kerberos needs one or two."""

LONGEST_TOKEN: Final = 64 * 1024
"""Limit on the bytes that the server may send in one step."""


class BindRefusedError(MsmqError):
    """The server refuses the account, or violates the protocol of the exchange."""


@attrs.define
class BindExchange:
    """Steps between the client's security context and the server. RFC 4513 5.2.1.3.

    The client's context produces the first token. L{produced} takes each token of the context and returns the
    request to send; L{answered} takes the result of the server and returns the next input of the context.
    The bind is done when the server has accepted it B{and} the context is complete: before that the server
    has not proved its identity.
    """

    _rounds: int = 0
    _is_accepted: bool = False
    _is_complete: bool = False
    _is_done: bool = False

    @property
    def is_done(self) -> bool:
        """Whether both sides are authenticated."""
        return self._is_done

    def produced(self, token: bytes | None, is_complete: bool) -> bytes | None:
        """The request to send after a step of the client's context; C{None} if the bind is done.

        @param token: the token from the context.
        @param is_complete: whether the context needs no further input of the server.
        @raise BindRefusedError: the two sides do not agree on whether the exchange has ended.
        """
        self._is_complete = is_complete
        if self._is_accepted:
            if token or not is_complete:
                raise BindRefusedError("the server ended the bind before it proved its identity")
            self._is_done = True
            return None
        if not token:
            raise BindRefusedError("the server demands another step of a bind that is complete")
        self._rounds += 1
        if self._rounds > MOST_ROUNDS:
            raise BindRefusedError(f"the bind is not complete after {MOST_ROUNDS} steps")
        return token

    def answered(self, result: Result) -> bytes | None:
        """The next input of the client's context; C{None} if the bind is done.

        @raise BindRefusedError: the server refuses, or sends data that does not belong to this step.
        """
        if result.code not in (SUCCESS, SASL_BIND_IN_PROGRESS):
            raise BindRefusedError(describe(result))
        if len(result.credentials) > LONGEST_TOKEN:
            raise BindRefusedError(
                f"the server sent {len(result.credentials)} bytes in a step of the bind; at most"
                f" {LONGEST_TOKEN} are accepted"
            )
        self._is_accepted = result.code == SUCCESS
        if result.credentials:
            if self._is_complete:
                raise BindRefusedError("the server sent another step of a bind that is complete")
            return result.credentials
        if not self._is_accepted:
            raise BindRefusedError("the server demands another step of the bind and sends no token")
        if not self._is_complete:
            raise BindRefusedError("the server accepted the bind without a proof of its identity")
        self._is_done = True
        return None
