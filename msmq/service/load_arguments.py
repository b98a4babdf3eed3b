"""Checks of the arguments with which a configuration is read."""

from __future__ import annotations

import os

import attrs

from msmq.errors import LocalProtocolError
from msmq.quoting import kind_of


def check_load_arguments(path: object, overrides: object, kind: type) -> None:
    """Check the arguments of L{load<msmq.service.configuration.loading.load>} by their names.

    @param kind: the class of the overrides.
    @raise LocalProtocolError: one has another type; the error names it.
    """
    if path is not None and not isinstance(path, str | os.PathLike):
        raise LocalProtocolError(f"load: path is {kind_of(path)}; it has to be a str or a Path")
    if overrides is None:
        return
    if not isinstance(overrides, kind):
        raise LocalProtocolError(
            f"load: overrides is {kind_of(overrides)}; it has to be such as Overrides(name='ALPHA')"
        )
    for name in attrs.fields_dict(kind):
        value = getattr(overrides, name)
        if value is not None and not isinstance(value, str | os.PathLike):
            raise LocalProtocolError(f"load: {name} of overrides is {kind_of(value)}; it has to be a str")
