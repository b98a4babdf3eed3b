"""Operators and faults of a simulated estate: what each step of a plan does."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msmq.testing.streams import Conditions
from tests.simulation.applications import KEPT, PAYMENTS, QUEUES, path_of
from tests.simulation.changes import (
    delete_admin,
    forward,
    hold_queue,
    queue_properties,
    redirect,
    send_keyed,
    send_large,
    set_property,
    set_quota,
    take_offline,
    transact,
)
from tests.simulation.enterprise import MEMBERS
from tests.simulation.handling import browse, look_up, move, reject, remove, requeue
from tests.simulation.plan import DIRECT
from tests.simulation.recovery import back_up_host, replace_host, restore_host

if TYPE_CHECKING:
    from tests.simulation.host import Host
    from tests.simulation.world import World


def perform(world: World, kind: str, arguments: tuple[Any, ...]) -> None:
    """Do one step."""
    STEPS[kind](world, *arguments)


# Applications


def _send(world: World, sender: int, receiver: int, *arguments: Any) -> None:
    sender, receiver = world.ends(sender, receiver)
    if (host := world.hosts[sender]).is_up:
        world.applications.send(host, world.hosts[receiver], *arguments)


def _send_answered(world: World, sender: int, receiver: int, third: int, queue: str, count: int) -> None:
    """Send messages whose acknowledgements go to another host."""
    sender, receiver = world.ends(sender, receiver)
    if (host := world.hosts[sender]).is_up:
        world.applications.send(
            host, world.hosts[receiver], queue, count, None, None, False, answered=world.hosts[third]
        )


def _receive(world: World, number: int, *arguments: Any) -> None:
    if (host := world.hosts[number]).is_up:
        world.applications.receive(host, *arguments)


# The network


def _cut(world: World, one: int, other: int) -> None:
    world.network.cut(world.hosts[one].address, world.hosts[other].address)


def _partition(world: World, one: int, other: int, seconds: float) -> None:
    ends = world.hosts[one].address, world.hosts[other].address
    world.network.partition(*ends)
    world.later(seconds, lambda: world.network.heal(*ends))


def _half(world: World, one: int, other: int, seconds: float) -> None:
    """Let nothing arrive that one of them sends."""
    source = world.hosts[one].address
    held = [
        end
        for link in world.network.links
        if link.is_connected
        for end in (link.initiator, link.acceptor)
        if end.getHost().host == source and end.getPeer().host == world.hosts[other].address
    ]
    for end in held:
        end.hold("half")

    def release() -> None:
        for end in held:
            end.release("half")

    world.later(seconds, release)


def _slow_network(world: World, one: int, other: int, seconds: float) -> None:
    slow = Conditions(delay=seconds / 10, jitter=seconds / 10, largest_chunk=world.plan.chunk)
    world.network.set_conditions(world.hosts[one].address, world.hosts[other].address, slow)


# Hosts


def _kill(world: World, number: int, kind: str, count: int, likelihood: float, seconds: float) -> None:
    host = world.hosts[number]
    if not host.is_up:
        return
    world.down[number] = seconds
    if not count:
        host.lose_power(likelihood)
    elif kind in ("calls", "writes"):
        host.arm(kind, count, likelihood)
    else:
        life = host.life
        world.after_events(count, partial(host.end_life, life, likelihood))


def _restart(world: World, number: int) -> None:
    host = world.hosts[number]
    if host.is_up:

        async def restart() -> None:
            await host.stop()
            if host.host.is_dead:
                world.later(0.1, lambda: world.restart_dead(host, host.life))

        host.begin(restart())


def _disk_errors(world: World, number: int, seconds: float) -> None:
    system = world.hosts[number].system
    system.failing = errno.EIO

    def end() -> None:
        system.failing = 0

    world.later(seconds, end)


def _slow_disk(world: World, number: int, seconds: float) -> None:
    system = world.hosts[number].system
    before, system.delay = system.delay, seconds / 10

    def end() -> None:
        system.delay = before

    world.later(seconds, end)


def _full(world: World, number: int, seconds: float) -> None:
    disk = world.hosts[number].disk
    disk.is_full = True

    def end() -> None:
        disk.is_full = False

    world.later(seconds, end)


def _rot(world: World, number: int) -> None:
    world.hosts[number].rotten_bit()


def _jump(world: World, number: int, seconds: float) -> None:
    world.hosts[number].clock.jump(seconds)


# Operators


def _purge(world: World, number: int, queue: str) -> None:
    host = world.hosts[number]
    if host.is_up:
        world.recorder.note("purge", queue=f"{host.name} {queue}")
        world.operate(number, lambda host: host.service.purge_queue(path_of(queue)))


def _pause(world: World, number: int, queue: str, seconds: float) -> None:
    world.operate(number, lambda host: host.service.pause_queue(path_of(queue)))
    resume = lambda host: host.service.resume_queue(path_of(queue))  # noqa: E731
    world.later(seconds, lambda: world.operate(number, resume))


def _hold(world: World, number: int, seconds: float) -> None:
    world.operate(number, lambda host: host.service.pause_all_outgoing())
    resume = lambda host: host.service.resume_all_outgoing()  # noqa: E731
    world.later(seconds, lambda: world.operate(number, resume))


def _delete(world: World, number: int, queue: str) -> None:
    host = world.hosts[number]
    if not host.is_up:
        return
    world.recorder.note("delete", queue=f"{host.name} {queue}")

    async def delete(host: Host) -> None:
        await host.service.delete_queue(path_of(queue))
        await host.service.create_queue(path_of(queue), **queue_properties(host, queue))

    world.operate(number, delete)


def _drain(world: World, source: int, destination: int, queue: str, seconds: float, keeps: bool) -> None:
    """Drain a queue to the queue of the same name at another host, and end that later."""
    if world.plan.shape != DIRECT:
        source, destination = MEMBERS[1], MEMBERS[0]
    host, other = world.hosts[source], world.hosts[destination]
    if not host.is_up:
        return
    admin = world.format_name(host, host, KEPT) if keeps and queue != PAYMENTS else None
    world.recorder.note("drain", queue=f"{host.name} {queue}", to=f"{other.name} {queue}")
    name = world.format_name(host, other, queue)
    world.operate(
        source,
        lambda host: host.service.drains.begin(path_of(queue), name, acknowledge_to=admin),
    )
    world.later(seconds, lambda: world.operate(source, lambda host: host.service.drains.end(path_of(queue))))


def _reload(world: World, number: int, window: int) -> None:
    """Reload with another window; sessions that begin later have it."""
    host = world.hosts[number]
    host.window = window
    host.sessions.configure(host.settings(), None)


def _purge_outgoing(world: World, number: int) -> None:
    host = world.hosts[number]
    if not host.is_up:
        return
    world.recorder.note("purge", queue=None)

    async def purge(host: Host) -> None:
        for queue in host.service.inspection.outgoing():
            # A purge of acknowledgements leaves their senders waiting, which nothing can mend.
            if not queue.format_name.endswith(QUEUES):
                continue
            await host.service.purge_outgoing(queue.format_name)

    world.operate(number, purge)


def _close_sessions(world: World, number: int) -> None:
    def close(host: Host) -> None:
        for session in host.service.inspection.sessions():
            host.service.close_session(session.identifier)

    world.operate(number, close)


def _retry(world: World, number: int) -> None:
    def retry(host: Host) -> None:
        host.service.retry_all_outgoing()

    world.operate(number, retry)


def _directory(world: World, number: int, seconds: float) -> None:
    directory = world.directory
    if directory is not None:
        directory.is_connected = False

        def connect() -> None:
            directory.is_connected = True

        world.later(seconds, connect)


STEPS: Final[dict[str, Callable[..., None]]] = {
    "send": _send,
    "receive": _receive,
    "cut": _cut,
    "partition": _partition,
    "half": _half,
    "slow network": _slow_network,
    "kill": _kill,
    "restart": _restart,
    "disk errors": _disk_errors,
    "slow disk": _slow_disk,
    "full": _full,
    "rot": _rot,
    "jump": _jump,
    "purge": _purge,
    "pause": _pause,
    "hold": _hold,
    "delete": _delete,
    "drain": _drain,
    "reload": _reload,
    "purge outgoing": _purge_outgoing,
    "close sessions": _close_sessions,
    "retry": _retry,
    "directory": _directory,
    "quota": set_quota,
    "property": set_property,
    "redirect": redirect,
    "hold queue": hold_queue,
    "delete admin": delete_admin,
    "offline": take_offline,
    "send large": send_large,
    "send keyed": send_keyed,
    "transact": transact,
    "forward": forward,
    "requeue": requeue,
    "move": move,
    "browse": browse,
    "look up": look_up,
    "reject": reject,
    "remove": remove,
    "back up": back_up_host,
    "restore": restore_host,
    "replace": replace_host,
    "send answered": _send_answered,
}
