"""Checks of the arguments of a session factory, where they come in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from zope.interface import Invalid
from zope.interface.verify import verifyObject

from msmq.errors import LocalProtocolError
from msmq.interfaces.broker import IBroker
from msmq.interfaces.session_policy import ISessionPolicy
from msmq.quoting import kind_of, quoted, with_article
from msmq.session.descriptor_shares import DescriptorShares
from msmq.settings import SessionSettings
from msmq.wire.addresses import AddressSet

_TYPES: Final[Mapping[str, type]] = {
    "identifier": UUID,
    "shares": DescriptorShares,
    "settings": SessionSettings,
    "allowed": AddressSet,
}

_METHODS: Final[Mapping[str, tuple[str, str]]] = {
    "reactor": ("callLater", "an IReactorTime"),
    "clock": ("now", "an IClock"),
}


def check_argument(name: str, value: object) -> None:
    """Check one argument by its name.

    @raise LocalProtocolError: it has another type, which the error names, or lacks a method.
    """
    if (kind := _TYPES.get(name)) is not None:
        if not isinstance(value, kind):
            raise _misfit(name, value, with_article(kind.__name__))
    elif name in _METHODS:
        method, words = _METHODS[name]
        if not callable(getattr(value, method, None)):
            raise _misfit(name, value, words)
    elif name == "policy":
        _check_provided(name, ISessionPolicy, value)
    elif not callable(value):
        raise _misfit(name, value, "a SessionProtocol class, or a callable that creates one")


def check_broker(broker: object) -> None:
    """Check that an object has every call of L{IBroker}, with its arguments.

    @raise LocalProtocolError: it has not; the error names the call.
    """
    _check_provided("broker", IBroker, broker)


def _check_provided(name: str, interface: type, value: object) -> None:
    try:
        verifyObject(interface, value, tentative=True)
    except Invalid as error:
        wrong = " ".join(str(error).split())
        raise LocalProtocolError(
            f"{name} is {kind_of(value)}, it has to provide {interface.__name__}: {wrong}"
        ) from error


def _misfit(name: str, value: object, words: str) -> LocalProtocolError:
    given = f"{quoted(value)}, a str" if isinstance(value, str) else kind_of(value)
    return LocalProtocolError(f"{name} is {given}; it has to be {words}")
