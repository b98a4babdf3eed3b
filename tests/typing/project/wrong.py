"""A project of a user with mistakes: type checkers report the lines that end with "error", and no others."""

from __future__ import annotations

from datetime import datetime

import msmq
import msmq.client
import msmq.interfaces
import msmq.testing
from msmq import Message, Server, SessionFactory
from msmq.interfaces import IClock, IQueueManager


class WrongClock:
    """A clock whose only method has another result."""

    def now(self) -> datetime:
        """The time of day."""
        return datetime.now()


def wall(clock: IClock) -> float:
    """The time of day."""
    return clock.now().wall


wall(WrongClock())  # error
wall(object())  # error
SessionFactory("not-a-uuid")  # error
Message(body="text")  # error
Server("msmq.toml")  # error
print(msmq.Sarver)  # error
print(msmq.client.Cleint)  # error
print(msmq.interfaces.IClok)  # error
print(msmq.testing.MemoryEstat)  # error


async def work(manager: IQueueManager) -> None:
    """Send wrongly."""
    await manager.send(5, [])  # error
    await manager.send("orders", "text")  # error
