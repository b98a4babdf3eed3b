"""Checks the arguments of a public method by its annotations, before anything is done.

An argument of another type would otherwise be noticed deep inside, or not at all, such as a text that is
taken as true. Methods on the hot path check their own (L{msmq.manager.applications.arguments}).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar, get_origin, get_type_hints

from twisted.internet.defer import Deferred, fail

from msmq.argument_types import check_type
from msmq.errors import LocalProtocolError

_P = ParamSpec("_P")
_R = TypeVar("_R")


def checked(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Refuse arguments of another type than the annotations of a method.

    Annotations of interfaces, callables and C{Any} are not checked; an int is a float, and a bool is no int.

    @return: raises L{LocalProtocolError} with the name of the argument, its type and the expected one; if the
        method returns a Deferred or a coroutine, that fails with it.
    """
    signature = inspect.signature(method)
    is_coroutine = inspect.iscoroutinefunction(method)

    @cache
    def hints() -> Mapping[str, Any]:
        return get_type_hints(method)

    def check(arguments: tuple[object, ...], named: Mapping[str, object]) -> None:
        for name, value in signature.bind(*arguments, **named).arguments.items():
            kind = signature.parameters[name].kind
            if name in hints() and kind is not inspect.Parameter.VAR_KEYWORD:
                check_type(name, value, hints()[name])

    if is_coroutine:

        async def call(*arguments: Any, **named: Any) -> Any:
            check(arguments, named)
            return await method(*arguments, **named)  # type: ignore[misc]

    else:

        def call(*arguments: Any, **named: Any) -> Any:  # type: ignore[misc]
            try:
                check(arguments, named)
            except LocalProtocolError:
                if get_origin(hints().get("return")) is Deferred:
                    return fail()
                raise
            return method(*arguments, **named)

    return wraps(method)(call)  # type: ignore[return-value]
