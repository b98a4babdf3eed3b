"""Changes of limits and properties in a simulated estate, and what ends them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msmq.queues.machine_quota import QuotaKind
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from tests.simulation.applications import ADMIN, PAYMENTS, QUEUES, path_of

if TYPE_CHECKING:
    from tests.simulation.host import Host
    from tests.simulation.world import World


# Applications


def send_large(world: World, sender: int, receiver: int, queue: str, count: int, size: int) -> None:
    """Send messages of a size."""
    sender, receiver = world.ends(sender, receiver)
    if (host := world.hosts[sender]).is_up:
        world.applications.send(host, world.hosts[receiver], queue, count, None, None, False, size)


def send_keyed(world: World, sender: int, receiver: int, queue: str, count: int, again: float) -> None:
    """Send messages with keys, several times."""
    sender, receiver = world.ends(sender, receiver)
    if (host := world.hosts[sender]).is_up:
        world.transactions.send_keyed(host, world.hosts[receiver], queue, count, again)


def transact(
    world: World, sender: int, receivers: Sequence[int], count: int, commits: bool, held: float
) -> None:
    """Send to several queues in one transaction."""
    ends = [world.ends(sender, receiver) for receiver in receivers]
    if (host := world.hosts[ends[0][0]]).is_up:
        targets = [world.hosts[receiver] for _, receiver in ends]
        world.transactions.send(host, targets, count, commits, held)


def forward(world: World, number: int, receiver: int, *arguments: Any) -> None:
    """Receive messages, and send another one for each, in one transaction."""
    number, receiver = world.ends(0, receiver) if world.directory is not None else (number, receiver)
    if (host := world.hosts[number]).is_up:
        world.transactions.forward(host, world.hosts[receiver], *arguments)


# Operators


def set_quota(
    world: World, number: int, kind: QuotaKind, by_operator: bool, kilobytes: int, seconds: float
) -> None:
    """Limit all queues of a queue manager together, for a time."""
    host = world.hosts[number]

    def change(value: int | None) -> None:
        if by_operator:
            world.operate(number, lambda host: host.service.set_quotas({kind: value}))
        else:
            host.configure_quota(kind, value)

    change(kilobytes)
    world.later(seconds, partial(change, None))


def set_property(world: World, number: int, queue: str, name: str, value: Any, seconds: float) -> None:
    """Change a property of a queue; limits for a time."""

    def change(value: Any) -> None:
        world.operate(number, lambda host: host.service.set_queue(path_of(queue), {name: value}))

    change(value)
    if not isinstance(value, bool):
        world.later(seconds, partial(change, None))


def redirect(world: World, number: int, other: int, queue: str, is_known: bool, seconds: float) -> None:
    """Connect for a name to the same host under another name, or to none, for a time."""
    name = world.format_name(world.hosts[number], world.hosts[other], queue)

    def change(to: str | None) -> None:
        world.operate(number, lambda host: host.service.redirect_outgoing(name, to))

    change(world.hosts[other].name if is_known else "nowhere")
    world.later(seconds, partial(change, None))


def hold_queue(world: World, number: int, other: int, queue: str | None, seconds: float) -> None:
    """Pause an outgoing queue, or a next hop, for a time."""
    held = world.hosts[other]
    name = held.address if queue is None else world.format_name(world.hosts[number], held, queue)

    def pause(host: Host) -> Any:
        return host.service.pause_next_hop(name) if queue is None else host.service.pause_outgoing(name)

    def resume(host: Host) -> Any:
        return host.service.resume_next_hop(name) if queue is None else host.service.resume_outgoing(name)

    world.operate(number, pause)
    world.later(seconds, lambda: world.operate(number, resume))


def delete_admin(world: World, number: int) -> None:
    """Delete an administration queue while acknowledgements arrive, and create it again."""

    async def delete(host: Host) -> None:
        await host.service.delete_queue(path_of(ADMIN))
        await host.service.create_queue(path_of(ADMIN))

    world.operate(number, delete)


def take_offline(world: World, number: int, seconds: float) -> None:
    """Take a queue manager offline for a time."""
    world.operate(number, lambda host: host.service.take_offline())
    world.later(seconds, lambda: world.operate(number, lambda host: host.service.bring_online()))


async def end_changes(host: Host) -> None:
    """End every change at a host.

    @raise MQError: one could not be ended yet.
    """
    service = host.service
    host.end_quotas()
    await service.set_quotas(dict.fromkeys(QuotaKind))
    for queue in QUEUES:
        await service.set_queue(path_of(queue), {"quota": None, "journal_quota": None})
    for summary in service.inspection.outgoing():
        if summary.redirected_to is not None:
            await service.redirect_outgoing(summary.format_name, None)
        if summary.paused_by:
            await service.resume_outgoing(summary.format_name)
    for address in host.world.addresses.values():
        await service.resume_next_hop(address)
    service.bring_online()


async def note_logs(world: World, host: Host) -> None:
    """Note what the message logs of a host have.

    One is complete if it was never switched off or trimmed, and its queue not deleted.
    """
    tuning = world.plan.tuning
    if tuning is None:
        return
    for queue in QUEUES:
        try:
            views = await _logged(host, path_of(queue))
        except MQError:
            continue
        changed = {
            each.arguments[1]
            for each in world.plan.steps
            if each.arguments[:1] == (host.number,)
            and (each.kind == "delete" or (each.kind == "property" and "log" in each.arguments[2]))
        }
        is_complete = host.number in tuning.logged and queue not in changed and not host.is_rotten
        labels = [world.applications.look(view)[0] for view in views]
        world.recorder.note("log", queue=f"{host.name} {queue}", labels=labels, complete=is_complete)


async def _logged(host: Host, path: str) -> list[UserMessageView]:
    """All entries of a message log, which come in pages.

    @raise MQError: there is none.
    """
    views: list[UserMessageView] = []
    last = 0
    while page := await host.service.inspection.logged(path, last):
        views += [entry.view for entry in page]
        last = page[-1].sequence
    return views


def queue_properties(host: Host, queue: str) -> dict[str, Any]:
    """The properties with which a queue is created."""
    tuning = host.world.plan.tuning
    is_logged = tuning is not None and host.number in tuning.logged and queue in QUEUES
    handling = host.world.plan.handling
    is_journaled = handling is not None and host.number in handling.journaled and queue in QUEUES
    return {
        "transactional": queue == PAYMENTS,
        **({"log": True} if is_logged else {}),
        **({"journal": True} if is_journaled else {}),
    }
