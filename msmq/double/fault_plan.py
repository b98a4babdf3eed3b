"""The faults that are left of a script while a double runs. A pure state."""

from __future__ import annotations

import attrs

from msmq.double.script import DoubleScript, Fault, MessageFacts, PeerAnswer, PeerRule


@attrs.define
class _Counted:
    """How often something of a script has matched, and has applied."""

    matched: int = 0
    applied: int = 0


class FaultPlan:
    """Chooses the fault of each message, and the answer to each ping and session."""

    def __init__(self, script: DoubleScript) -> None:
        self._script = script
        self._counts = [_Counted() for _ in script.faults]
        self._pings = _Counted()
        self._sessions = _Counted()

    def fault_of(self, message: MessageFacts) -> Fault | None:
        """The fault of the next message; C{None} for none.

        Every fault counts the messages that match it, also while an earlier one applies.
        """
        chosen: Fault | None = None
        for fault, counted in zip(self._script.faults, self._counts, strict=True):
            if not fault.matches(message):
                continue
            counted.matched += 1
            place = counted.matched - fault.after
            is_due = place > 0 and (place - 1) % fault.every == 0
            if chosen is None and is_due and (fault.count is None or counted.applied < fault.count):
                counted.applied += 1
                chosen = fault
        return chosen

    def ping_answer(self) -> PeerAnswer:
        """The answer to the next ping."""
        return _next(self._script.pings, self._pings)

    def session_answer(self) -> PeerAnswer:
        """The answer to the next request to open a session."""
        return _next(self._script.sessions, self._sessions)


def _next(rule: PeerRule, counted: _Counted) -> PeerAnswer:
    if rule.count is not None and counted.applied >= rule.count:
        return PeerAnswer.ACCEPT
    counted.applied += 1
    return rule.answer
