"""A session policy as a plugin: sessions of known peers only, and no message with a forbidden label.

After C{pip install examples/known_peers} a configuration says::

    [security]
    session_policy = "known-peers:peers.toml"

The file names the peers, by the identifiers that C{msmq status} shows there, and the labels::

    peers = ["761BB34D-7CC6-4988-BCCF-C0EAF0A2818A"]
    forbidden_labels = ["drop table"]

An identifier is not authenticated; use TLS with pins where peers have to prove who they are.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any
from uuid import UUID

from zope.interface import implementer

from msmq import UserMessageView
from msmq.interfaces import (
    IArgumentProbe,
    ISessionPolicy,
    ISessionPolicyFactory,
    ServerContext,
    SessionPeer,
)


@implementer(ISessionPolicy)
class KnownPeersPolicy:
    """Refuses unknown peers, and messages with a forbidden label.

    @param peers: the queue managers that may have a session.
    @param forbidden: the labels that no message may have.
    """

    def __init__(self, peers: frozenset[UUID], forbidden: frozenset[str]) -> None:
        self._peers = peers
        self._forbidden = forbidden

    def session_refusal(self, peer: SessionPeer) -> str:
        """See L{ISessionPolicy.session_refusal}."""
        return "" if peer.identifier in self._peers else f"{peer.identifier} is not one of the known peers"

    def message_refusal(self, peer: SessionPeer, message: UserMessageView) -> str:
        """See L{ISessionPolicy.message_refusal}: this message alone is refused."""
        return "its label is forbidden" if message.label in self._forbidden else ""


@implementer(ISessionPolicyFactory, IArgumentProbe)
class KnownPeersFactory:
    """C{known-peers:FILE}: a TOML file, relative to the working directory; it is read at start."""

    name = "known-peers"
    description = "sessions of known peers only, and no message with a forbidden label"

    def make_session_policy(self, argument: str, context: ServerContext) -> KnownPeersPolicy:
        """See L{ISessionPolicyFactory.make_session_policy}."""
        return self._read(argument)

    def probe(self, argument: str) -> None:
        """See L{IArgumentProbe.probe}."""
        self._read(argument)

    def _read(self, argument: str) -> KnownPeersPolicy:
        if not argument:
            raise ValueError("needs a file, as in known-peers:peers.toml")
        try:
            with Path(argument).open("rb") as file:
                content: dict[str, Any] = tomllib.load(file)
            return KnownPeersPolicy(
                frozenset(UUID(peer) for peer in content["peers"]),
                frozenset(content.get("forbidden_labels", ())),
            )
        except KeyError as error:
            raise ValueError(f"{argument} lacks the line peers = [...]") from error
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise ValueError(f"{argument} cannot be used: {error}") from error
