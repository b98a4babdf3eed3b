"""Loads the broker that an option of C{twistd msmq} names."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime

from msmq.errors import MsmqError
from msmq.interfaces.clock import IClock
from msmq.interfaces.server_program import IServerProgram
from msmq.named_objects import NamedObjectError, failure, import_named
from msmq.quoting import kind_of


class ProgramError(MsmqError):
    """A broker cannot be used; has the reason, with the file and line if it is in the broker's own code."""


def load_program(text: str, reactor: IReactorTime, clock: IClock) -> IServerProgram:
    """Import a broker, create it, and return its program.

    @param text: C{module:Class}, or C{module:callable}; called without arguments, it returns a broker.
    @raise ProgramError: it cannot be imported or created, or is not a broker.
    """
    try:
        make = import_named(text, "orders:Orders")
    except NamedObjectError as error:
        raise ProgramError(str(error)) from error
    try:
        broker = make()
        program = getattr(broker, "program", None)
        found = program(reactor, clock) if callable(program) else None
    except MsmqError as error:
        raise ProgramError(str(error)) from error
    except Exception as error:
        raise ProgramError(failure("cannot be created", error)) from error
    if not IServerProgram.providedBy(found):
        raise ProgramError(f"it creates {kind_of(broker)}; it has to create a msmq.Broker")
    return found
