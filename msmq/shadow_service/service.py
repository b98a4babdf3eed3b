"""ShadowService: the shadows of a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from msmq.interfaces.manager.queue_manager import IQueueManager
from msmq.interfaces.shadows import CopiedMessage, IShadows, ShadowSummary, no_shadow
from msmq.shadow_service.settings import ShadowSettings
from msmq.shadow_service.shadow import Shadow

MOST_COPIES = 1_000
"""Limit on messages of one answer."""


@implementer(IShadows)
class ShadowService:
    """Creates the shadows of a configuration, and starts and stops them together.

    @param name: the name of the queue manager, for the queue of answers to copies.
    @param in_thread: calls a function in a worker thread, as C{deferToThread}.
    @param directory: where the identifiers of copies are kept.
    """

    def __init__(
        self,
        settings: Sequence[ShadowSettings],
        manager: IQueueManager,
        name: str,
        reactor: IReactorTime,
        in_thread: Callable[..., Deferred[Any]],
        directory: Path,
    ) -> None:
        self._manager = manager
        self._shadows = [
            Shadow(each, manager, reactor, in_thread, directory, _answers(each, name)) for each in settings
        ]
        self._is_started = False

    def start(self) -> None:
        """Start the shadows."""
        self._is_started = True
        for shadow in self._shadows:
            shadow.start()

    async def stop(self) -> None:
        """Stop the shadows."""
        if self._is_started:
            self._is_started = False
            for shadow in self._shadows:
                await shadow.stop()

    def summaries(self) -> Sequence[ShadowSummary]:
        """See L{IShadows}."""
        return [shadow.summary for shadow in self._shadows]

    def summary(self, queue: str) -> ShadowSummary:
        """See L{IShadows}."""
        return self._find(queue).summary

    def copies(self, queue: str, after: int = 0, count: int = MOST_COPIES) -> Sequence[CopiedMessage]:
        """See L{IShadows}."""
        return self._find(queue).copies(after, min(count, MOST_COPIES))

    def _find(self, queue: str) -> Shadow:
        path = self._manager.inspection.queue(queue).path.lower()
        for shadow in self._shadows:
            if shadow.settings.queue.lower() == path:
                return shadow
        raise no_shadow(queue)


def _answers(settings: ShadowSettings, name: str) -> str | None:
    if not settings.shadow:
        return None
    return f"DIRECT=OS:{name}\\{settings.shadow.partition(chr(92))[2]}"
