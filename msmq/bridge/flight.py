"""Messages in flight on one route of a bridge: what is sent, confirmed, refused, retried and removed.

A message is removed from its source only after its destination has confirmed it, or after it is stored as a
dead letter.  docs/design/bridge.md.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from enum import Enum, auto
from typing import Final

import attrs

REMEMBERED: Final = 10_000
"""Identities of confirmed messages that a route remembers when it loses its source."""


class FlightState(Enum):
    """The state of one message in flight."""

    WAITING = auto()
    """To be sent."""
    SENT = auto()
    """Sent, and not confirmed."""
    RETURNED = auto()
    """Returned by the destination, whose confirmation follows."""
    CONFIRMED = auto()
    """The destination is responsible for it; to be removed from the source."""
    FAILED = auto()
    """Cannot be delivered; to be stored as a dead letter."""
    LEAVING = auto()
    """Its removal, or its dead letter, is in progress."""


@attrs.frozen
class RouteSteps:
    """What to do next, in order.

    @ivar send: tokens to send to the destination.
    @ivar remove: tokens to remove from the source.
    @ivar dead_letters: tokens to store as dead letters, each with its reason.
    """

    send: tuple[int, ...] = ()
    remove: tuple[int, ...] = ()
    dead_letters: tuple[tuple[int, str], ...] = ()


@attrs.define
class _Flight:
    identity: str
    state: FlightState = FlightState.WAITING
    reason: str = ""


@attrs.define
class RouteFlight:
    """The messages in flight on one route, in the order of the source.

    It starts without a destination; L{destination_ready} begins to send.
    Events about tokens that are not in the state for them are ignored: they are late results of a lost
    connection.

    @ivar window: limit on messages that are sent and not confirmed, at least 1.
    @ivar stops_at_failure: whether a message that cannot be delivered stops the route instead of becoming a
        dead letter.
    """

    window: int
    stops_at_failure: bool = False
    _flights: dict[int, _Flight] = attrs.field(factory=dict, init=False)
    _remembered: OrderedDict[str, None] = attrs.field(factory=OrderedDict, init=False)
    _suspects: set[int] = attrs.field(factory=set, init=False)
    _is_ready: bool = attrs.field(default=False, init=False)
    _is_paused: bool = attrs.field(default=False, init=False)
    _is_blocked: bool = attrs.field(default=False, init=False)
    _is_backing_off: bool = attrs.field(default=False, init=False)

    def __len__(self) -> int:
        return len(self._flights)

    @property
    def unconfirmed(self) -> int:
        """Messages that are sent and not confirmed."""
        return sum(each.state in _AT_DESTINATION for each in self._flights.values())

    @property
    def is_paused(self) -> bool:
        """Whether an operator has paused the route."""
        return self._is_paused

    @property
    def is_blocked(self) -> bool:
        """Whether the destination accepts nothing at present."""
        return self._is_blocked

    @property
    def is_backing_off(self) -> bool:
        """Whether nothing is sent because the destination has refused a message for now."""
        return self._is_backing_off

    def state_of(self, token: int) -> FlightState | None:
        """The state of a message; C{None} if it is not in flight."""
        flight = self._flights.get(token)
        return None if flight is None else flight.state

    @property
    def stop_reason(self) -> str:
        """The reason why the route has stopped at a message; empty if it has not."""
        if self.stops_at_failure:
            for flight in self._flights.values():
                if flight.state is FlightState.FAILED:
                    return flight.reason
        return ""

    # The source.

    def take(self, token: int, identity: str) -> None:
        """Take over a message of the source, behind those that were taken before.

        @param identity: the same when the source delivers it again; empty if the source has none.  A message
            that was confirmed before a loss of the source is not sent again.
        """
        flight = self._flights[token] = _Flight(identity)
        if identity in self._remembered:
            flight.state = FlightState.CONFIRMED

    def source_lost(self) -> None:
        """The source has taken back all messages, and will deliver them again."""
        for flight in self._flights.values():
            if flight.identity and (flight.state is FlightState.CONFIRMED or self._is_removal(flight)):
                self._remembered[flight.identity] = None
                self._remembered.move_to_end(flight.identity)
        while len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)
        self._flights.clear()
        self._suspects.clear()

    def removed(self, tokens: Iterable[int]) -> None:
        """The source has durably removed messages, or their dead letters are stored."""
        for token in tokens:
            flight = self._flights.pop(token, None)
            self._suspects.discard(token)
            if flight is not None:
                self._remembered.pop(flight.identity, None)

    # The destination.

    def destination_ready(self) -> None:
        """The destination is connected: messages may be sent."""
        self._is_ready = True
        self._is_blocked = False

    def destination_lost(self, culprit: str = "") -> None:
        """The connection to the destination is lost: what was not confirmed is sent again.

        @param culprit: the reason if one of the unconfirmed messages is to blame.  They are then sent one by
            one, and the one that is alone when it happens again has failed.
        """
        self._is_ready = False
        self._is_blocked = False
        sent = [token for token, each in self._flights.items() if each.state in _AT_DESTINATION]
        if culprit and len(sent) == 1 and sent[0] in self._suspects:
            self._fail(sent[0], culprit)
        elif culprit:
            self._suspects.update(sent)
        for token in sent:
            flight = self._flights[token]
            if flight.state in _AT_DESTINATION:
                flight.state = FlightState.WAITING

    def blocked(self, is_blocked: bool) -> None:
        """The destination accepts no messages at present, or does again."""
        self._is_blocked = is_blocked

    def confirmed(self, token: int) -> bool:
        """The destination has confirmed a message; one that it returned before has failed.

        @return: whether it is confirmed from now on.
        """
        flight = self._flights.get(token)
        if flight is None or flight.state not in _AT_DESTINATION:
            return False
        self._suspects.discard(token)
        is_returned = flight.state is FlightState.RETURNED
        flight.state = FlightState.FAILED if is_returned else FlightState.CONFIRMED
        return not is_returned

    def returned(self, token: int, reason: str) -> None:
        """The destination has no queue for a message; its confirmation follows."""
        flight = self._flights.get(token)
        if flight is not None and flight.state is FlightState.SENT:
            flight.state = FlightState.RETURNED
            flight.reason = reason

    def nacked(self, token: int) -> None:
        """The destination refuses a message for now: it is sent again after L{back_off_ended}."""
        flight = self._flights.get(token)
        if flight is not None and flight.state in _AT_DESTINATION:
            flight.state = FlightState.WAITING
            self._is_backing_off = True

    def back_off_ended(self) -> None:
        """Messages may be sent again after a refusal for now."""
        self._is_backing_off = False

    def failed(self, token: int, reason: str) -> None:
        """A message cannot be delivered: it cannot be mapped, or the destination refuses it permanently."""
        flight = self._flights.get(token)
        if flight is not None and flight.state in (FlightState.WAITING, *_AT_DESTINATION):
            self._fail(token, reason)

    def dead_letter_failed(self, token: int) -> None:
        """A dead letter could not be stored: it is tried again with the next steps."""
        flight = self._flights.get(token)
        if flight is not None and flight.state is FlightState.LEAVING and flight.reason:
            flight.state = FlightState.FAILED

    # The operator.

    def pause(self) -> None:
        """Send nothing more; results that arrive still take effect."""
        self._is_paused = True

    def resume(self) -> None:
        """Send again; a message at which the route has stopped is tried again."""
        self._is_paused = False
        if self.stops_at_failure:
            for flight in self._flights.values():
                if flight.state is FlightState.FAILED:
                    flight.state = FlightState.WAITING
                    flight.reason = ""

    def next_steps(self) -> RouteSteps:
        """What to do now; what is returned counts as begun."""
        remove = []
        dead_letters = []
        for token, flight in self._flights.items():
            if flight.state is FlightState.CONFIRMED:
                flight.state = FlightState.LEAVING
                remove.append(token)
            elif flight.state is FlightState.FAILED and not self.stops_at_failure:
                flight.state = FlightState.LEAVING
                dead_letters.append((token, flight.reason))
        return RouteSteps(tuple(self._sendable()), tuple(remove), tuple(dead_letters))

    def _sendable(self) -> list[int]:
        """The messages to send now: they count as sent."""
        if not self._is_ready or self._is_paused or self._is_blocked or self._is_backing_off:
            return []
        free = (1 if self._suspects else self.window) - self.unconfirmed
        found = []
        for token, flight in self._flights.items():
            if free <= 0 or (self.stops_at_failure and flight.state is FlightState.FAILED):
                break
            if flight.state is FlightState.WAITING:
                flight.state = FlightState.SENT
                flight.reason = ""
                found.append(token)
                free -= 1
        return found

    def _fail(self, token: int, reason: str) -> None:
        flight = self._flights[token]
        flight.state = FlightState.FAILED
        flight.reason = reason
        self._suspects.discard(token)

    @staticmethod
    def _is_removal(flight: _Flight) -> bool:
        return flight.state is FlightState.LEAVING and not flight.reason


_AT_DESTINATION: Final = (FlightState.SENT, FlightState.RETURNED)
