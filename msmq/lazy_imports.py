"""Names of a package that are imported when they are first used (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_attributes(
    package: str, modules: Mapping[str, tuple[str, ...]], prepare: Callable[[object], None] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Make the C{__getattr__} and C{__dir__} of a package that imports its names lazily.

    The package hides both from type checkers, which would accept any name otherwise, and has its names in
    imports for them and in a literal C{__all__}.

    @param package: its C{__name__}.
    @param modules: the names by the module that defines them.
    @param prepare: called with each value before it is returned; C{None} if nothing is to be done.
    @return: C{__getattr__}, which raises C{AttributeError} for an unknown name, and C{__dir__}.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def import_name(name: str) -> object:
        home = homes.get(name)
        if home is None:
            # Python suggests a similar name if it has both of these.
            text = f"module {package} has no attribute {name}"
            raise AttributeError(text, name=name, obj=sys.modules[package])
        value: object = getattr(import_module(home), name)
        if prepare is not None:
            prepare(value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return import_name, names
