"""Plugins: selects the one that a configuration names, and reports plugins that cannot be used.

L{twisted.plugin.getPlugins} skips a file that cannot be imported, and an object that lacks an interface.
Here a name that is not found is reported with these files and the reasons, so that a typing error and a
missing dependency can be distinguished.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import attrs
from twisted.plugin import getCache
from twisted.python.modules import getModule
from zope.interface.exceptions import BrokenImplementation, BrokenMethodImplementation, Invalid
from zope.interface.verify import verifyObject

import twisted.plugins
from msmq.errors import MsmqError
from msmq.quoting import quoted

T = TypeVar("T")

_MOST_REPORTED: Final = 5
"""Limit on the unusable files that an error names."""


class PluginError(MsmqError):
    """A plugin cannot be used; names it, its file and the reason."""


@attrs.frozen
class _Unusable:
    """A plugin file, or an object of it, that cannot be used."""

    file: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


def plugins(interface: type[T]) -> Iterator[T]:
    """The installed plugins of a kind; those that cannot be imported are omitted.

    @param interface: the interface of the kind, which extends L{twisted.plugin.IPlugin}.
    """
    for _, plugin, _ in _installed(interface):
        if plugin is not None:
            yield plugin


def select_plugin(
    name: str, interface: type[T], built_in: Sequence[T], *, kind: str, reserved: Sequence[str] = ()
) -> T:
    """The plugin with a name; built-in ones win over installed ones.

    @param interface: as of L{plugins}; an instance has the attribute C{name}.
    @param kind: what a plugin creates: C{store}.
    @param reserved: further names that are valid, for the error text.
    @raise PluginError: there is none, there are several, or it lacks a part of the interface.
    """
    for factory in built_in:
        if _name_of(factory) == name:
            return factory
    found: list[tuple[str, T]] = []
    known = [*reserved, *(_name_of(factory) for factory in built_in)]
    for file, plugin, _ in _installed(interface):
        if plugin is None:
            continue
        known.append(_name_of(plugin))
        # A file may have a plugin under two names, such as one that it has imported.
        if known[-1] == name and not any(plugin is other for _, other in found):
            found.append((file, plugin))
    if not found:
        problems = [str(each) for each in _unusable(name, interface)]
        more = f"; and {len(problems) - _MOST_REPORTED} more" if len(problems) > _MOST_REPORTED else ""
        raise PluginError(
            f"unknown {kind} {quoted(name)}; known are: {', '.join(sorted(known))}"
            + ("; plugins that cannot be used: " if problems else "")
            + "; ".join(problems[:_MOST_REPORTED])
            + more
        )
    if len(found) > 1:
        files = ", ".join(file for file, _ in found)
        raise PluginError(
            f"several plugins have the {kind} {quoted(name)}; uninstall all but one of: {files}"
        )
    [(file, plugin)] = found
    lack = lacking(interface, plugin)
    if lack:
        raise PluginError(f"{file}: the {kind} plugin {quoted(name)} cannot be used: {lack}")
    return plugin


def lacking(interface: type, provider: object) -> str:
    """What an object lacks of an interface, in one line; empty for nothing.

    Attributes, methods and the parameters of methods are checked, types are not.
    """
    if not _provides(interface, provider):
        return f"{_shown(provider)} does not provide {interface.__name__}"
    try:
        verifyObject(interface, provider)
    except Exception as error:
        # Several faults are one exception with a list of them.
        faults: Sequence[Exception] = getattr(error, "exceptions", (error,))
        return "; ".join(_lack(interface, each) for each in faults)
    return ""


def _lack(interface: type, error: Exception) -> str:
    match error:
        case BrokenImplementation():
            return f"it lacks {interface.__name__}.{_member(error.name)}"
        case BrokenMethodImplementation():
            return (
                f"{interface.__name__}.{_member(error.method)} has other parameters: {_one_line(error.mess)}"
            )
        case Invalid():
            return _one_line(error)
    return _import_error(error)


def _member(described: object) -> str:
    """The name of an interface's member, which zope.interface gives as a name or as the member."""
    return str(getattr(described, "__name__", described))


def check_product(interface: type, product: object, *, plugin: str) -> None:
    """Check the object that a plugin has created.

    @param plugin: the name of the plugin.
    @raise PluginError: it lacks a part of the interface.
    """
    lack = lacking(interface, product)
    if lack:
        raise PluginError(f"what the plugin {quoted(plugin)} has created cannot be used: {lack}")


def _installed(interface: type[T]) -> Iterator[tuple[str, T | None, str]]:
    """File, object and problem of each plugin that states the interface."""
    for dropin in getCache(twisted.plugins).values():
        for cached in dropin.plugins:
            if not any(provided.isOrExtends(interface) for provided in cached.provided):
                continue
            file = _file_of(dropin.moduleName)
            try:
                yield file, cached.load(), ""
            except Exception as error:
                yield file, None, _import_error(error)


def _unusable(name: str, interface: type) -> Iterator[_Unusable]:
    """Plugin files that cannot be imported, and objects of this name that lack the interface."""
    for module in getModule("twisted.plugins").iterModules():
        file = module.filePath.path
        try:
            loaded = module.load()
        except Exception as error:
            yield _Unusable(file, f"cannot be imported: {_import_error(error)}")
            continue
        for attribute, value in vars(loaded).items():
            if isinstance(value, type) or _provides(interface, value):
                continue
            # Most objects have no name, which is not the empty one.
            if name and _name_of(value) == name:
                yield _Unusable(file, f"{attribute} does not provide {interface.__name__}")


def _file_of(module: str) -> str:
    return str(getModule(module).filePath.path)


def _name_of(factory: object) -> str:
    name = getattr(factory, "name", None)
    return name if isinstance(name, str) else ""


def _provides(interface: Any, provider: object) -> bool:
    return bool(interface.providedBy(provider))


def _shown(provider: object) -> str:
    kind = type(provider)
    return "None" if provider is None else f"an object of {kind.__module__}.{kind.__qualname__}"


def _import_error(error: Exception) -> str:
    return f"{type(error).__name__}: {_one_line(error)}"


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
