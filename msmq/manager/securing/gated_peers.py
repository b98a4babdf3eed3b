"""Trusted addresses that a gate of an application decides on."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import attrs
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.interfaces.security.gate import IGate
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.quoting import quoted


@attrs.define(kw_only=True)
class GatedPeers(TrustedPeers):
    """Passes each question to a gate; an error, and any result but C{True}, refuse.

    The settings of the configuration, and those of a reload, have no effect.

    @ivar gate: decides.
    """

    log: ClassVar[Logger] = Logger()

    gate: IGate

    def admits(self, address: str) -> bool:
        """See L{IGate.admits}."""
        return self._ask(self.gate.admits, address)

    def is_trusted(self, address: str) -> bool:
        """Whether the gate admits this address: it names each address that it admits."""
        return self.admits(address)

    def may_acknowledge(self, address: str) -> bool:
        """See L{IGate.may_acknowledge}."""
        return self._ask(self.gate.may_acknowledge, address)

    def accepts_acknowledgements(self, address: str) -> bool:
        """Whether the gate admits this address, or lets it acknowledge."""
        return self.admits(address) or self.may_acknowledge(address)

    def refusal(self, address: str) -> str:
        """The refusal; no line of the configuration would change it."""
        return f"its sender is not authenticated, and the gate of the server does not admit {quoted(address)}"

    def _ask(self, question: Callable[[str], object], address: str) -> bool:
        try:
            return question(address) is True
        except Exception:
            self.log.failure("the gate failed, and the peer is not trusted", Failure())
            return False
