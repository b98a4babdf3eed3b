"""Checks of the arguments of a server that are not parts with an interface, where they come in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msmq.errors import LocalProtocolError
from msmq.interfaces.server_program import IServerProgram
from msmq.plugins import lacking
from msmq.quoting import kind_of
from msmq.service.settings import Configuration

_METHODS: Final[Mapping[str, tuple[str, str]]] = {
    "reactor": ("callLater", "an IReactorTime"),
    "clock": ("now", "an IClock"),
    "log_output": ("configure", "a LogOutput"),
}


def check_server_arguments(
    configuration: object,
    source: object,
    program: object,
    reactor: object,
    clock: object,
    log_output: object,
) -> None:
    """Check the arguments of L{Server<msmq.service.server.Server>} by their names; C{None} is left out.

    @raise LocalProtocolError: one has another type or lacks a method; the error names it.
    """
    if not isinstance(configuration, Configuration):
        raise LocalProtocolError(
            f"Server: configuration is {kind_of(configuration)}; it has to be a Configuration, as"
            ' load("msmq.toml") returns it'
        )
    if source is not None and not callable(source):
        raise LocalProtocolError(
            f"Server: source is {kind_of(source)}; it has to be a callable that returns a Configuration"
        )
    if program is not None and (lack := lacking(IServerProgram, program)):
        raise LocalProtocolError(f"Server: program cannot be used as an IServerProgram: {lack}")
    for name, value in ("reactor", reactor), ("clock", clock), ("log_output", log_output):
        method, words = _METHODS[name]
        if value is not None and not callable(getattr(value, method, None)):
            raise LocalProtocolError(f"Server: {name} is {kind_of(value)}; it has to be {words}")
