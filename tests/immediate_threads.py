"""A reactor whose threads finish at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IReactorThreads
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer


class _ImmediatePool:
    """Calls in the thread of the caller."""

    def callInThreadWithCallback(
        self, done: Callable[[bool, Any], object], work: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> None:
        """See L{twisted.python.threadpool.ThreadPool}."""
        try:
            result = work(*args, **kwargs)
        except Exception:
            done(False, Failure())
        else:
            done(True, result)


@implementer(IReactorThreads)
class ImmediateThreads(Clock):
    """A clock on which work for a thread is done where it is given."""

    def getThreadPool(self) -> Any:
        """See L{IReactorThreads}."""
        return _ImmediatePool()

    def callInThread(self, callable: Callable[..., object], *args: object, **kwargs: object) -> None:
        """See L{IReactorThreads}."""
        callable(*args, **kwargs)

    def callFromThread(self, callable: Callable[..., object], *args: object, **kwargs: object) -> None:
        """See L{IReactorThreads}."""
        callable(*args, **kwargs)

    def suggestThreadPoolSize(self, size: int) -> None:
        """See L{IReactorThreads}; there are none."""
