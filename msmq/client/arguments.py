"""Checks of the arguments of a client, where they come in."""

from __future__ import annotations

import math
import os

from msmq.errors import LocalProtocolError
from msmq.quoting import kind_of, quoted


def check_text(name: str, value: object) -> None:
    """A text that is not empty.

    @raise LocalProtocolError: it is not.
    """
    if not isinstance(value, str):
        raise LocalProtocolError(f"{name} is {kind_of(value)}, it has to be text")
    if not value:
        raise LocalProtocolError(f"{name} is {quoted(value)}, it has to be a text that is not empty")


def check_count(name: str, value: object) -> None:
    """A whole number from 1 up.

    @raise LocalProtocolError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise LocalProtocolError(f"{name} is {kind_of(value)}, it has to be an int")
    if value < 1:
        raise LocalProtocolError(f"{name} is {value}, it has to be at least 1")


def check_seconds(name: str, value: object) -> None:
    """A number of seconds, at least 0.

    @raise LocalProtocolError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise LocalProtocolError(f"{name} is {kind_of(value)}, it has to be a number of seconds")
    if math.isnan(value) or value < 0:
        raise LocalProtocolError(f"{name} is {value}, it has to be at least 0 seconds")


def check_path(name: str, value: object) -> None:
    """A path as a text or a C{Path}.

    @raise LocalProtocolError: it is not.
    """
    if not isinstance(value, str | os.PathLike):
        raise LocalProtocolError(f"{name} is {kind_of(value)}, it has to be text or a Path")
