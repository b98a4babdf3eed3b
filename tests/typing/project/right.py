"""A project of a user, in which no type checker finds a fault."""

from __future__ import annotations

from uuid import UUID, uuid4

from twisted.internet.defer import Deferred, succeed

from msmq import (
    Message,
    Overrides,
    Server,
    SessionFactory,
    SessionProtocol,
    UserMessageView,
    load,
)
from msmq.interfaces import (
    IClock,
    IMessageStore,
    IQueueManager,
    ISessionPolicy,
    LogExtent,
    SessionPeer,
)
from msmq.moment import Moment


class StoppedClock:
    """A clock without zope.interface: a protocol needs no declaration."""

    def now(self) -> Moment:
        """See L{IClock.now}."""
        return Moment(1.0, 1_800_000_000.0)


class Policy:
    """A session policy."""

    def session_refusal(self, peer: SessionPeer) -> str:
        """See L{ISessionPolicy.session_refusal}."""
        return "" if peer.is_encrypted else "TLS is required"

    def message_refusal(self, peer: SessionPeer, message: UserMessageView) -> str:
        """See L{ISessionPolicy.message_refusal}."""
        return "it has no label" if not message.label else ""


class Recorder(SessionProtocol):
    """Sessions that print what arrives."""

    def message_arriving(self, message: UserMessageView) -> None:
        """See L{SessionProtocol.message_arriving}."""
        print(message.label, bytes(message.body))


def wall(clock: IClock) -> float:
    """The time of day."""
    return clock.now().wall


async def work(manager: IQueueManager, store: IMessageStore) -> str:
    """Use an embedded queue manager and a store through their interfaces."""
    extent: Deferred[LogExtent] = store.log_extent(uuid4())
    await extent
    message = Message(body=b"two boxes", response_queue="DIRECT=OS:SHOP\\private$\\answers")
    [identifier] = await manager.send("DIRECT=OS:BETA\\private$\\orders", [message])
    return f"{store.name} {identifier}"


policy: ISessionPolicy = Policy()
clock: IClock = StoppedClock()
factory = SessionFactory(UUID(int=1), clock=clock, policy=policy, protocol=Recorder)
server = Server(load(None, Overrides(name="ALPHA")), session_policy=policy)
started: Deferred[float] = succeed(wall(clock))
