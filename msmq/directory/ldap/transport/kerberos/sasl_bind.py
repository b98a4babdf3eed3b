"""Kerberos bind on a connection to an LDAP server."""

from __future__ import annotations

from typing import Any, Final

from twisted.internet.ssl import Certificate

from msmq.directory.ldap.transport.filters import ANYTHING
from msmq.directory.ldap.transport.kerberos.bind_exchange import MECHANISM, BindExchange, BindRefusedError
from msmq.directory.ldap.transport.kerberos.tickets import (
    KdcUnreachableError,
    KerberosAccount,
    channel_binding,
)
from msmq.directory.ldap.transport.protocol import LdapProtocol
from msmq.directory.ldap.transport.wire import SaslBind, Scope, SearchRequest

_MECHANISMS: Final = "supportedSASLMechanisms"


async def bind(protocol: LdapProtocol, host: str, account: KerberosAccount) -> None:
    """Authenticate the account to the server, and the server to the account.

    @param host: the server's name, as its domain knows it.
    @raise KeytabError: the keytab or C{gssapi} cannot be used.
    @raise KdcUnreachableError: no domain controller answers Kerberos requests.
    @raise BindRefusedError: the domain or the server refuses the account.
    @raise LdapDisconnectedError: the connection is lost.
    """
    # An answer of the server also means that TLS is established, and its certificate verified.
    asked = await protocol.ask(SearchRequest("", Scope.ENTRY, ANYTHING, (_MECHANISMS,)))
    offered = {value for entry in asked.entries for value in entry.all(_MECHANISMS)}
    if offered and MECHANISM.encode() not in offered:
        names = b", ".join(sorted(offered)).decode(errors="replace")
        raise BindRefusedError(
            f"the server does not offer {MECHANISM} (it offers {names}); use bind_dn and password_file"
        )
    exchange = BindExchange()
    try:
        client, token, is_complete = await account.start(host, _binding(protocol))
        while (credentials := exchange.produced(token, is_complete)) is not None:
            answer = await protocol.ask(SaslBind(MECHANISM, credentials))
            received = exchange.answered(answer.result)
            if received is None:
                break
            token, is_complete = await account.step(client, received)
    except (BindRefusedError, KdcUnreachableError):
        account.renew()
        raise


def _binding(protocol: LdapProtocol) -> bytes | None:
    """The channel binding of the connection, if that has TLS."""
    transport: Any = protocol.transport
    certificate = getattr(transport, "getPeerCertificate", lambda: None)()
    if certificate is None:
        return None
    algorithm = certificate.to_cryptography().signature_hash_algorithm
    return channel_binding(Certificate(certificate).dump(), None if algorithm is None else algorithm.name)
