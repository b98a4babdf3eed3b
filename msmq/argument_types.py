"""Checks an argument by its annotation: a wrong type is refused by name, with the expected one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

from msmq.errors import LocalProtocolError
from msmq.quoting import kind_of, with_article

_PLURALS: Final[Mapping[object, str]] = {
    str: "texts",
    int: "ints",
    tuple: "tuples",
}


def check_type(name: str, value: object, hint: Any) -> None:
    """Check one value.

    @param name: its name in the error.
    @param hint: its annotation, resolved.
    @raise LocalProtocolError: it has another type.
    """
    if not _fits(value, hint):
        raise LocalProtocolError(f"{name} is {kind_of(value)}; it has to be {_words(hint)}")
    if isinstance(value, float) and math.isnan(value):
        raise LocalProtocolError(f"{name} is nan; it has to be a number")
    if get_origin(hint) is Sequence:
        _check_members(name, value, hint)
    elif get_origin(hint) is Mapping:
        assert isinstance(value, Mapping)
        of_key, of_value = get_args(hint)
        for key, each in value.items():
            check_type(f"a key of {name}", key, of_key)
            check_type(f"{name}[{getattr(key, 'value', key)}]", each, of_value)


def _check_members(name: str, value: object, hint: Any) -> None:
    assert isinstance(value, Sequence)
    [member] = get_args(hint)
    for each in value:
        if not _fits(each, member):
            raise LocalProtocolError(f"{name} has {kind_of(each)}; it has to be {_words(hint)}")


def _fits(value: object, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if origin is Sequence:
        return isinstance(value, Sequence) and not isinstance(value, str | bytes)
    if origin is not None:
        return not isinstance(origin, type) or isinstance(value, origin)
    if hint is Any:
        return True
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    # Others, such as interfaces, are no classes of Python.
    return not isinstance(hint, type) or isinstance(value, hint)


def _words(hint: Any) -> str:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        words = [_words(each) for each in get_args(hint) if each is not NoneType]
        return ", or ".join([*words, "None"] if NoneType in get_args(hint) else words)
    if origin is Sequence:
        [member] = get_args(hint)
        member = get_origin(member) or member
        return f"a list of {_PLURALS.get(member, getattr(member, '__name__', 'objects'))}"
    if origin is Mapping:
        return "a dict"
    return "None" if hint is NoneType else with_article(getattr(origin or hint, "__name__", "object"))
