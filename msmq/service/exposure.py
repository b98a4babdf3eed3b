"""Warnings about configurations that are open to unauthenticated peers."""

from __future__ import annotations

from msmq.service.settings import Configuration
from msmq.wire.addresses import is_loopback


def exposure(configuration: Configuration) -> str | None:
    """Warnings about a server that unauthenticated peers can reach.

    @return: words that finish "listen.session ..."; C{None} if the configuration is explicit.
    """
    session, security = configuration.listen.session, configuration.security
    if session is None or session.interface is None or is_loopback(session.interface):
        return None
    if security.unauthenticated is not None or security.peers:
        return None
    return (
        f"is {session}, which other hosts can reach, but messages of unverified senders are refused: "
        f"[security] peers lists addresses that may send them, and unauthenticated sets it for all"
    )
