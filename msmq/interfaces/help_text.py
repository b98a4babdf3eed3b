"""Text of an interface for C{help}, with its attributes and methods."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Final

from zope.interface.interface import InterfaceClass, Method

_COMPLETE: Final[set[InterfaceClass]] = set()
"""The interfaces whose docstring has their members."""


def add_members(interface: object) -> None:
    """Append the members of an interface to its docstring, once.

    C{help} shows the docstring of an interface and nothing else, because an interface is not a class.
    """
    assert isinstance(interface, InterfaceClass)
    if interface in _COMPLETE:
        return
    _COMPLETE.add(interface)
    interface.__doc__ = "\n".join([inspect.cleandoc(interface.__doc__ or ""), "", *_lines(interface)])


def _lines(interface: InterfaceClass) -> Iterator[str]:
    for name, member in sorted(interface.namesAndDescriptions(all=True)):
        signature = str(member.getSignatureString()) if isinstance(member, Method) else ""  # type: ignore[no-untyped-call]
        yield f"{name}{signature}"
        for line in inspect.cleandoc(member.__doc__ or "").splitlines():
            yield f"    {line}" if line else ""
        yield ""
