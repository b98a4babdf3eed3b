"""Plans of runs with changed limits and properties: what a seed decides of those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, TypeAlias

import attrs

from msmq.queues.machine_quota import QuotaKind

Arguments: TypeAlias = tuple[Any, ...]
Draw: TypeAlias = tuple[float, str, Arguments]
"""The second of a step, its kind and its arguments."""


@attrs.frozen
class Tuning:
    """Settings of the queue managers of one run, where they are not the usual ones.

    @ivar session: attributes of L{msmq.settings.SessionSettings}.
    @ivar express_memory: see L{msmq.queues.model.QueueManagerModel}; also C{peer_dead_letters}, in kilobytes.
    @ivar logged: the hosts whose queues have a message log from the beginning.
    """

    session: Mapping[str, Any] = attrs.field(factory=dict)
    express_memory: int | None = None
    peer_dead_letters: int | None = None
    logged: Sequence[int] = ()


def draw_tuning(chance: Random, hosts: int) -> Tuning:
    """The settings of a run with changes: usual ones more often than others."""
    session = {
        "order_ack_bytes": chance.choice((1, 2000, 40_000, 4 << 20)),
        "order_ack_messages": chance.choice((1, 3, 1000)),
        "order_ack_timeout": chance.choice((0.05, 0.5, 3.0)),
        "unacknowledged_messages": chance.choice((1, 3, 200_000)),
        "outgoing_queue_idle": chance.choice((2.0, 30.0, 3600.0)),
        "session_cleanup": chance.choice((3.0, 300.0)),
        "receive_memory": chance.choice((1000, 50_000, 1 << 28)),
    }
    return Tuning(
        session,
        express_memory=chance.choice((None, 0, 2000)),
        peer_dead_letters=chance.choice((None, 0, 2)),
        logged=[number for number in range(hosts) if chance.random() < 0.5],
    )


def draw_changes(chance: Random, hosts: int, end: float) -> list[Draw]:
    """Changes of a run, at times until shortly after its other steps."""
    # Some kinds more, some never, as with the other steps.
    weights = [_KINDS[kind][0] * chance.choice((0, 1, 1, 3)) for kind in _KINDS]
    weights[0] = max(weights[0], 1)
    steps: list[Draw] = []
    for _ in range(chance.randrange(2, 13)):
        [kind] = chance.choices(list(_KINDS), weights)
        at = chance.choice((end, end, end + 2.0)) * chance.random()
        steps.append((round(at, 6), kind, _KINDS[kind][1](chance, hosts)))
    return steps


def _seconds(chance: Random) -> float:
    return round(chance.choice((0.05, 2.0, 30.0, 300.0, 300.0)) * chance.random(), 6)


def _pair(chance: Random, hosts: int) -> tuple[int, int]:
    sender = chance.randrange(hosts)
    return sender, (sender + chance.randrange(1, hosts)) % hosts


def _quota(chance: Random, hosts: int) -> Arguments:
    kind = chance.choice((QuotaKind.QUEUES, QuotaKind.QUEUES, QuotaKind.JOURNALS))
    # Whether an operator sets it, or a reload of the configuration.
    by_operator = chance.random() < 0.6
    return chance.randrange(hosts), kind, by_operator, chance.choice((0, 1, 2, 4, 12)), _seconds(chance)


def _property(chance: Random, hosts: int) -> Arguments:
    name, value = chance.choice(
        (
            ("quota", 0),
            ("quota", 3),
            ("log", True),
            ("log", False),
            ("log_size", 2),
            ("journal", True),
            ("journal_quota", 1),
        )
    )
    return chance.randrange(hosts), chance.choice(("payments", "letters")), name, value, _seconds(chance)


def _redirect(chance: Random, hosts: int) -> Arguments:
    queue = chance.choice(("payments", "payments", "letters", "admin"))
    # To the same host under its name, or to one that is unknown.
    is_known = chance.random() < 0.7
    return *_pair(chance, hosts), queue, is_known, _seconds(chance)


def _hold(chance: Random, hosts: int) -> Arguments:
    queue = chance.choice(("payments", "letters", "admin", None))
    return *_pair(chance, hosts), queue, _seconds(chance)


def _send_large(chance: Random, hosts: int) -> Arguments:
    queue = chance.choice(("payments", "payments", "letters"))
    size = chance.choice((9_000, 30_000, 150_000))
    return *_pair(chance, hosts), queue, chance.choice((1, 2, 4)), size


def _send_keyed(chance: Random, hosts: int) -> Arguments:
    queue = chance.choice(("payments", "letters"))
    again = round(chance.choice((0.0, 0.5, 10.0)) * chance.random(), 6)
    return *_pair(chance, hosts), queue, chance.choice((1, 3, 5)), again


def _transact(chance: Random, hosts: int) -> Arguments:
    sender = chance.randrange(hosts)
    receivers = [chance.randrange(hosts - 1) for _ in range(chance.choice((1, 2, 2)))]
    receivers = [number + (number >= sender) for number in receivers]
    held = chance.choice((0.0, 0.01, 2.0))
    return sender, receivers, chance.choice((1, 2, 5)), chance.random() < 0.75, held


def _forward(chance: Random, hosts: int) -> Arguments:
    # To a host with a higher number, so that no message goes in a circle.
    host = chance.randrange(hosts - 1)
    return (
        host,
        chance.randrange(host + 1, hosts),
        chance.choice((1, 3, 10)),
        chance.choice((0.0, 3.0, 20.0, 20.0)),
        chance.random() < 0.75,
        chance.choice((0.0, 0.01, 2.0)),
    )


_KINDS: Final[dict[str, tuple[int, Any]]] = {
    "quota": (6, _quota),
    "property": (4, _property),
    "redirect": (2, _redirect),
    "hold queue": (2, _hold),
    "delete admin": (1, lambda chance, hosts: (chance.randrange(hosts),)),
    "offline": (1, lambda chance, hosts: (chance.randrange(hosts), _seconds(chance))),
    "send large": (4, _send_large),
    "send keyed": (4, _send_keyed),
    "transact": (4, _transact),
    "forward": (4, _forward),
}
"""By kind: how often it comes, and what decides its arguments."""
