"""A model of a route: a source and a destination that fail at any step, around the real flight."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from msmq.bridge.flight import RouteFlight

UNROUTABLE: Final = "312 NO_ROUTE"
POISON: Final = "406 PRECONDITION_FAILED"


@attrs.define
class RouteModel:
    """Messages 0 to C{count} - 1, some of which are unroutable, or make the broker close the channel.

    Each action is one event that may happen at this moment, and does nothing if it cannot.

    @ivar arrived: at the destination, in order; a message may be there more than once.
    @ivar excuses: how often each message was sent without a confirmation before its connection was lost, or
        refused for now: it may be doubled as often.
    """

    count: int
    unroutable: frozenset[int] = frozenset()
    poison: frozenset[int] = frozenset()
    window: int = 3
    flight: RouteFlight = attrs.field(init=False)
    queue: deque[int] = attrs.field(init=False)
    arrived: list[int] = attrs.field(factory=list, init=False)
    dead: dict[int, str] = attrs.field(factory=dict, init=False)
    removed: Counter[int] = attrs.field(factory=Counter, init=False)
    excuses: Counter[int] = attrs.field(factory=Counter, init=False)
    locked: dict[int, int] = attrs.field(factory=dict, init=False)
    sent: list[int] = attrs.field(factory=list, init=False)
    accepted: set[int] = attrs.field(factory=set, init=False)
    removing: list[int] = attrs.field(factory=list, init=False)
    burying: list[tuple[int, str]] = attrs.field(factory=list, init=False)
    is_connected: bool = attrs.field(default=False, init=False)
    _token: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.flight = RouteFlight(self.window)
        self.queue = deque(range(self.count))

    @property
    def actions(self) -> Sequence[Callable[[], None]]:
        """Everything that may happen."""
        return (
            self.deliver,
            self.connect,
            self.confirm,
            self.confirm,
            self.lose_destination,
            self.lose_after_acceptance,
            self.refuse_for_now,
            self.remove,
            self.bury,
            self.fail_to_bury,
            self.lose_source,
            self.restart,
            self.block,
            self.unblock,
        )

    def deliver(self) -> None:
        """The source delivers its next message."""
        if self.queue and len(self.locked) < 6:
            self._token += 1
            message = self.queue.popleft()
            self.locked[self._token] = message
            self.flight.take(self._token, f"id{message}")
            self.step()

    def connect(self) -> None:
        """The destination is connected."""
        if not self.is_connected:
            self.is_connected = True
            self.flight.destination_ready()
        self.flight.back_off_ended()
        self.step()

    def confirm(self) -> None:
        """The destination answers the first message: a return, a closed channel, or a confirmation."""
        if not self.sent:
            return
        message = self.locked[self.sent[0]]
        if message in self.poison:
            self._disconnect(POISON)
            return
        token = self.sent.pop(0)
        if message in self.unroutable:
            self.flight.returned(token, UNROUTABLE)
        else:
            self.arrived.append(message)
            self.accepted.add(message)
        self.flight.confirmed(token)
        self.step()

    def refuse_for_now(self) -> None:
        """The destination refuses the first message for now."""
        if self.sent:
            token = self.sent.pop(0)
            self.flight.nacked(token)
            self.step()

    def lose_destination(self) -> None:
        """The connection is lost before the destination has what was sent."""
        if self.is_connected:
            self._disconnect("")

    def lose_after_acceptance(self) -> None:
        """The connection is lost after the destination has accepted a message, before its confirmation."""
        if self.sent and (message := self.locked[self.sent[0]]) not in self.poison | self.unroutable:
            self.arrived.append(message)
            self.accepted.add(message)
            self.excuses[message] += 1
            self._disconnect("")

    def _disconnect(self, culprit: str) -> None:
        self.is_connected = False
        self.sent.clear()
        self.flight.destination_lost(culprit)
        self.step()

    def remove(self) -> None:
        """The source has removed a message."""
        if self.removing:
            token = self.removing.pop(0)
            message = self.locked.pop(token)
            assert message in self.accepted, "removed before the destination had it"
            self.removed[message] += 1
            self.flight.removed([token])
            self.step()

    def bury(self) -> None:
        """A dead letter is stored, and its message removed."""
        if self.burying:
            token, reason = self.burying.pop(0)
            message = self.locked.pop(token)
            self.dead[message] = reason
            self.removed[message] += 1
            self.flight.removed([token])
            self.step()

    def fail_to_bury(self) -> None:
        """A dead letter could not be stored."""
        if self.burying:
            token, _ = self.burying.pop(0)
            self.flight.dead_letter_failed(token)
            self.step()

    def lose_source(self) -> None:
        """The connection to the source is lost: it will deliver what was not removed again."""
        self.queue.extendleft(sorted(self.locked.values(), reverse=True))
        for token in self.sent:
            self.excuses[self.locked[token]] += 1
        if self.sent:
            # What was sent may still arrive.
            self.arrived += [self.locked[token] for token in self.sent if self._can_arrive(token)]
            self.accepted.update(self.locked[token] for token in self.sent if self._can_arrive(token))
        self.locked.clear()
        self.sent.clear()
        self.removing.clear()
        self.burying.clear()
        self.flight.source_lost()
        self.step()

    def restart(self) -> None:
        """The bridge is killed: both connections are lost, and what it remembered."""
        for message in self.locked.values():
            self.excuses[message] += 1
        self.lose_source()
        self.is_connected = False
        self.flight = RouteFlight(self.window)

    def block(self) -> None:
        """The destination accepts nothing: a memory alarm."""
        if self.is_connected:
            self.flight.blocked(True)

    def unblock(self) -> None:
        """The destination accepts messages again."""
        self.flight.blocked(False)
        self.step()

    def step(self) -> None:
        """Perform the next steps of the flight."""
        steps = self.flight.next_steps()
        assert not steps.send or self.is_connected
        self.sent += steps.send
        assert len(self.sent) <= self.window
        self.removing += steps.remove
        self.burying += steps.dead_letters

    def finish(self) -> None:
        """Let everything go well until nothing is left."""
        for _ in range(100 * (self.count + 1)):
            if not self.queue and not self.locked:
                return
            for action in (self.connect, self.unblock, self.deliver, self.confirm, self.remove, self.bury):
                action()
        raise AssertionError(f"messages stay in the source: {list(self.locked.values())}, {self.queue}")

    def check(self) -> None:
        """Each message is at the destination or a dead letter, and doubled only where it may be."""
        for message in range(self.count):
            assert self.removed[message] == 1, f"message {message} was removed {self.removed[message]} times"
            if message in self.unroutable:
                assert self.dead[message] == UNROUTABLE
            elif message in self.poison:
                assert self.dead[message] == POISON
            else:
                times = self.arrived.count(message)
                assert 1 <= times <= 1 + self.excuses[message], f"message {message} arrived {times} times"
                assert message not in self.dead

    def _can_arrive(self, token: int) -> bool:
        return self.locked[token] not in self.poison | self.unroutable
