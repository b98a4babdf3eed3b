"""BridgeService: the routes of one bridge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from twisted.internet.interfaces import IReactorTime

from msmq.bridge_service.inward_route import InwardRoute
from msmq.bridge_service.outward_route import OutwardRoute
from msmq.bridge_service.queues import IBridgedQueues
from msmq.bridge_service.reply_store import ReplyStore
from msmq.bridge_service.settings import InwardSettings, OutwardSettings


class BridgeService:
    """Creates the routes of a configuration, and starts and stops them together.

    @param queues: the queues of a route's queue manager.
    @param directory: where addresses of requests are kept; C{None} keeps them in memory.
    """

    def __init__(
        self,
        settings: Sequence[OutwardSettings | InwardSettings],
        queues: Callable[[OutwardSettings | InwardSettings], IBridgedQueues],
        reactor: IReactorTime,
        directory: Path | None,
    ) -> None:
        self._is_started = False
        self.routes: dict[str, OutwardRoute | InwardRoute] = {}
        stores: dict[str, ReplyStore] = {}
        for each in settings:
            if isinstance(each, InwardSettings):
                path = None if directory is None else directory / f"replies-{each.name}.jsonl"
                store = stores[each.name] = ReplyStore(path, reactor.seconds)
                self.routes[each.name] = InwardRoute(each, queues(each), reactor, store)
        for each in settings:
            if isinstance(each, OutwardSettings):
                find = stores[each.answers].find if each.answers else None
                self.routes[each.name] = OutwardRoute(each, queues(each), reactor, find)

    def start(self) -> None:
        """Start the routes."""
        self._is_started = True
        for route in self.routes.values():
            route.start()

    async def stop(self) -> None:
        """Stop the routes: messages in flight return to their sources."""
        if self._is_started:
            self._is_started = False
            for route in self.routes.values():
                await route.stop()
