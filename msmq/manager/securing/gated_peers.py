"""Trusted addresses that a gate of an application decides on."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

import attrs
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.interfaces.clock import IClock
from msmq.interfaces.security.gate import IGate
from msmq.line_limit import LineLimit
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.quoting import quoted

LINES: Final = 2
"""Errors of a gate that are logged in a minute: each message of a peer may cause one."""


@attrs.define(kw_only=True)
class GatedPeers(TrustedPeers):
    """Passes each question to a gate; an error, and any result but C{True}, refuse.

    The settings of the configuration, and those of a reload, have no effect.

    @ivar gate: decides.
    """

    log: ClassVar[Logger] = Logger()

    gate: IGate
    _clock: IClock
    _lines: LineLimit = attrs.field(factory=lambda: LineLimit.a_minute(LINES), init=False)

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
            if (others := self._lines.take(self._clock.now())) is not None:
                self.log.failure(
                    "the gate failed, and the peer is not trusted{others}", Failure(), others=others
                )
            return False
