"""Creates the router, access control and session policy of a plugin that a configuration names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msmq.interfaces.plugins import (
    IAccessControlFactory,
    IArgumentProbe,
    IRouterFactory,
    ISessionPolicyFactory,
    ServerContext,
)
from msmq.interfaces.routing import IRouter
from msmq.interfaces.security.access import IAccessControl
from msmq.interfaces.session_policy import ISessionPolicy
from msmq.plugins import PluginError, check_product, select_plugin
from msmq.quoting import quoted
from msmq.service.settings import DESCRIPTORS, DIRECTORY_ROUTING, NO_POLICY

T = TypeVar("T")


def check_router(description: str) -> None:
    """Check that a description names an installed router.

    @raise PluginError: it does not.
    """
    if description != DIRECTORY_ROUTING:
        _router_factory(_name(description))


def check_access(description: str) -> None:
    """Check that a description names an installed access control.

    @raise PluginError: it does not.
    """
    if description != DESCRIPTORS:
        _access_factory(_name(description))


def check_session_policy(description: str) -> None:
    """Check that a description names an installed session policy.

    @raise PluginError: it does not.
    """
    if description != NO_POLICY:
        _session_policy_factory(_name(description))


def make_router(description: str, context: ServerContext) -> IRouter | None:
    """Create the router that C{NAME:ARGUMENT} describes; C{None} for routing by the directory.

    @raise PluginError: there is no such plugin, it refuses the argument, or its router cannot be used.
    """
    if description == DIRECTORY_ROUTING:
        return None
    factory = _router_factory(_name(description))
    return _made("routing", description, IRouter, lambda text: factory.make_router(text, context))


def make_access_control(
    description: str, context: ServerContext, documented: IAccessControl
) -> IAccessControl | None:
    """Create the access control that C{NAME:ARGUMENT} describes; C{None} for the documented one.

    @raise PluginError: as of L{make_router}.
    """
    if description == DESCRIPTORS:
        return None
    factory = _access_factory(_name(description))
    return _made(
        "access",
        description,
        IAccessControl,
        lambda text: factory.make_access_control(text, context, documented),
    )


def make_session_policy(description: str, context: ServerContext) -> ISessionPolicy | None:
    """Create the session policy that C{NAME:ARGUMENT} describes; C{None} for no policy.

    @raise PluginError: as of L{make_router}.
    """
    if description == NO_POLICY:
        return None
    factory = _session_policy_factory(_name(description))
    return _made(
        "session_policy", description, ISessionPolicy, lambda text: factory.make_session_policy(text, context)
    )


def probe_router(description: str) -> None:
    """Check the argument of a router, if its plugin can.

    @raise PluginError: it is unsuitable.
    """
    if description != DIRECTORY_ROUTING:
        _probe("routing", description, _router_factory)


def probe_access(description: str) -> None:
    """Check the argument of an access control, if its plugin can.

    @raise PluginError: it is unsuitable.
    """
    if description != DESCRIPTORS:
        _probe("access", description, _access_factory)


def probe_session_policy(description: str) -> None:
    """Check the argument of a session policy, if its plugin can.

    @raise PluginError: it is unsuitable.
    """
    if description != NO_POLICY:
        _probe("session_policy", description, _session_policy_factory)


def _probe(key: str, description: str, factory_named: Callable[[str], object]) -> None:
    name, _, argument = description.partition(":")
    probe = IArgumentProbe(factory_named(name), None)
    if probe is None:
        return
    try:
        probe.probe(argument)
    except ValueError as error:
        raise PluginError(f"{key} {quoted(description)}: {error}") from error


def _made(key: str, description: str, interface: type, make: Callable[[str], T]) -> T:
    name, _, argument = description.partition(":")
    try:
        product = make(argument)
    except ValueError as error:
        raise PluginError(f"{key} {quoted(description)}: {error}") from error
    check_product(interface, product, plugin=name)
    return product


def _name(description: str) -> str:
    return description.partition(":")[0]


def _router_factory(name: str) -> IRouterFactory:
    return select_plugin(name, IRouterFactory, (), kind="router", reserved=(DIRECTORY_ROUTING,))


def _access_factory(name: str) -> IAccessControlFactory:
    return select_plugin(name, IAccessControlFactory, (), kind="access control", reserved=(DESCRIPTORS,))


def _session_policy_factory(name: str) -> ISessionPolicyFactory:
    return select_plugin(name, ISessionPolicyFactory, (), kind="session policy", reserved=(NO_POLICY,))
