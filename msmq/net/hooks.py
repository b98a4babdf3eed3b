"""Results of session hooks: which hooks may take time, and which have to be plain calls."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from inspect import isawaitable
from typing import ParamSpec, TypeVar

from twisted.internet.defer import Deferred

from msmq.errors import LocalProtocolError
from msmq.interfaces.broker import HookResult
from msmq.net.coroutines import run_coroutine

P = ParamSpec("P")
T = TypeVar("T")


class HookError(LocalProtocolError):
    """A hook returned what it does not support: its work would be lost without a trace."""


def call_hook(hook: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a hook that has to be done when it returns.

    @raise HookError: it returned a Deferred or an awaitable.
    """
    result = hook(*args, **kwargs)
    if result is not None and (isinstance(result, Deferred) or isawaitable(result)):
        discard(result)
        raise HookError(
            f"{_name(hook)} returned a {type(result).__name__}, but it has to be a plain call; only"
            " messages_arriving and message_arriving, and messages_arrived of a broker, may be coroutines or"
            " return a Deferred"
        )
    return result


def call_slow_hook(hook: Callable[P, HookResult], *args: P.args, **kwargs: P.kwargs) -> Deferred[None] | None:
    """Call a hook that may be a coroutine or return a Deferred.

    @return: fires when the hook is done; C{None} if it is.
    @raise HookError: it returned something else.
    """
    result: object = hook(*args, **kwargs)
    if result is None or isinstance(result, Deferred):
        return result
    if isinstance(result, Coroutine):
        return run_coroutine(result)
    discard(result)
    raise HookError(
        f"{_name(hook)} returned a {type(result).__name__}; it has to return None or a Deferred, or be a"
        " coroutine"
    )


def _name(hook: Callable[..., object]) -> str:
    """The hook with its class, as its author wrote it."""
    return str(getattr(hook, "__qualname__", type(hook).__name__)).rpartition("<locals>.")[2]


def discard(result: object) -> None:
    """Release what a hook has returned by mistake, without a second report of it."""
    if isinstance(result, Coroutine):
        result.close()
    elif isinstance(result, Deferred):
        result.addErrback(lambda _: None)
