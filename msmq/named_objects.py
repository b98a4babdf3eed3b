"""Objects of a user's modules that a configuration or an option names: C{MODULE:NAME}."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from typing import Any

from msmq.errors import MsmqError
from msmq.quoting import quoted


class NamedObjectError(MsmqError):
    """A named object cannot be used; has the reason, with the file and line if it is in the user's code."""


def import_named(text: str, example: str) -> Any:
    """Import the module of a name, and return the class or the callable that it names.

    @param text: C{module:Class}, or C{module:callable}.
    @param example: for the error text.
    @raise NamedObjectError: it cannot be imported, or is not callable.
    """
    module_name, colon, name = text.partition(":")
    if not module_name or not colon or not name:
        raise NamedObjectError(f"it has to be MODULE:CLASS, such as {example}")
    if "/" in module_name or module_name.startswith(".") or module_name.endswith(".py"):
        # For more.py Python imports more, and looks in it for py.
        raise NamedObjectError(
            f"{quoted(module_name)} is not a module; write MODULE:CLASS, such as {example}"
        )
    directory = os.getcwd()
    if directory not in sys.path:
        # Last, so that it hides no package that is installed.
        sys.path.append(directory)
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise NamedObjectError(
                f"there is no module {quoted(module_name)}; the working directory and PYTHONPATH are searched"
            ) from error
        raise NamedObjectError(failure("cannot be imported", error)) from error
    except Exception as error:
        raise NamedObjectError(failure("cannot be imported", error)) from error
    found = getattr(module, name, None)
    if not callable(found):
        raise NamedObjectError(f"module {quoted(module_name)} has no class {quoted(name)}")
    return found


def failure(what: str, error: Exception) -> str:
    """What has failed, in one line, with the place in the user's code."""
    # The first frame is that of the caller, which has caught the error.
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in frames if "importlib" not in frame.filename]
    place = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"{what}: {type(error).__name__}: {' '.join(str(error).split())}{place}"
