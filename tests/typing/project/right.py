"""A project of a user, in which no type checker finds a fault."""

from __future__ import annotations

from uuid import UUID, uuid4

from twisted.internet.defer import Deferred, succeed

from msmq import (
    Broker,
    Message,
    MessageClass,
    Outcome,
    Overrides,
    ReceivedMessage,
    Server,
    SessionFactory,
    SessionProtocol,
    UserMessageView,
    accept,
    later,
    load,
    reject,
)
from msmq.client import AsyncioClient, Client, DeferredClient, message_to
from msmq.interfaces import (
    IClock,
    IMessageStore,
    IQueueManager,
    ISessionPolicy,
    LogExtent,
    Moment,
    QueueProperties,
    SessionPeer,
)


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


class Orders(Broker):
    """A broker."""

    async def message_received(self, message: ReceivedMessage) -> Outcome:
        """See L{Broker.message_received}."""
        if not message.body:
            return reject(MessageClass.NACK_RECEIVE_REJECTED, "it is empty")
        if message.attempt < 2:
            return later(5)
        await self.manager.send("DIRECT=OS:BETA\\private$\\answers", [Message(body=message.body)])
        return accept()


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


async def read(manager: IQueueManager) -> str:
    """Read in a transaction, through the interface alone."""
    async with manager.begin() as transaction, manager.open_queue("orders") as queue:
        received: ReceivedMessage = await queue.receive(timeout=0, transaction=transaction)
        async for message in queue.cursor():
            print(message.label)
    properties: QueueProperties = {"transactional": True}
    await manager.create_queue("answers", **properties)
    first: UserMessageView = await manager.peek("orders", timeout=0)
    return f"{received.label} {first.label} {await manager.format_name('orders')}"


async def order(client: AsyncioClient, deferred: DeferredClient, blocking: Client) -> str:
    """Send by each face of the client."""
    identifier: str = await client.send("orders", "two boxes", label="first", priority=5)
    sent: Deferred[list[str]] = deferred.send_all([message_to("orders", b"one box")], transaction=True)
    await sent
    with blocking.consume("orders", timeout=1) as consumer:
        for batch in consumer:
            with batch:
                return batch.messages[0].label
    return identifier


policy: ISessionPolicy = Policy()
clock: IClock = StoppedClock()
factory = SessionFactory(UUID(int=1), clock=clock, policy=policy, protocol=Recorder)
server = Server(load(None, Overrides(name="ALPHA")), session_policy=policy)
orders = Orders(queues={"orders": {"transactional": True}}, concurrency=4, store="orders-data")
started: Deferred[float] = succeed(wall(clock))
