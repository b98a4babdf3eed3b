"""Loads the broker that an option of C{twistd msmq} names."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module

from twisted.internet.interfaces import IReactorTime

from msmq.errors import MsmqError
from msmq.interfaces.clock import IClock
from msmq.interfaces.server_program import IServerProgram
from msmq.quoting import kind_of, quoted


class ProgramError(MsmqError):
    """A broker cannot be used; has the reason, with the file and line if it is in the broker's own code."""


def load_program(text: str, reactor: IReactorTime, clock: IClock) -> IServerProgram:
    """Import a broker, create it, and return its program.

    @param text: C{module:Class}, or C{module:callable}; called without arguments, it returns a broker.
    @raise ProgramError: it cannot be imported or created, or is not a broker.
    """
    module_name, colon, name = text.partition(":")
    if not module_name or not colon or not name:
        raise ProgramError("it has to be MODULE:CLASS, such as orders:Orders")
    directory = os.getcwd()
    if directory not in sys.path:
        # Last, so that it hides no package that is installed.
        sys.path.append(directory)
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise ProgramError(
                f"there is no module {quoted(module_name)}; the working directory and PYTHONPATH are searched"
            ) from error
        raise ProgramError(_failed("cannot be imported", error)) from error
    except Exception as error:
        raise ProgramError(_failed("cannot be imported", error)) from error
    make = getattr(module, name, None)
    if not callable(make):
        raise ProgramError(f"module {quoted(module_name)} has no class {quoted(name)}")
    try:
        broker = make()
        program = getattr(broker, "program", None)
        found = program(reactor, clock) if callable(program) else None
    except MsmqError as error:
        raise ProgramError(str(error)) from error
    except Exception as error:
        raise ProgramError(_failed("cannot be created", error)) from error
    if not IServerProgram.providedBy(found):
        raise ProgramError(f"it creates {kind_of(broker)}; it has to create a msmq.Broker")
    return found


def _failed(what: str, error: Exception) -> str:
    """What has failed, with the place in the code of the broker."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "importlib" not in frame.filename and frame.filename != __file__]
    place = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"{what}: {type(error).__name__}: {error}{place}"
