"""Loads a configuration: files, environment and options become one frozen L{Configuration}."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from msmq.service.configuration.probes import (
    probe_directory,
    probe_machine,
    probe_plugins,
    probe_storage,
    warn,
)
from msmq.service.configuration.problems import ConfigurationError, ConfigurationProblem
from msmq.service.configuration.settings_builder import Overrides, SettingsBuilder
from msmq.service.configuration.values import ConfigurationValues
from msmq.service.load_arguments import check_load_arguments
from msmq.service.settings import Configuration

DROP_INS: Final = "conf.d"
"""The directory next to a configuration file whose files are read after it."""


def check(path: str | Path) -> list[ConfigurationProblem]:
    """All problems of a configuration file; an empty list if it is valid.

    If there is no other problem, the arguments of plugins, a remote store and a remote directory are tried,
    which may take some seconds.
    The list includes warnings about settings that are valid but unsafe.
    """
    values, configuration = _read(path, Overrides(), os.environ)
    for probe in (probe_machine, probe_plugins, probe_storage, probe_directory):
        if not values.problems:
            probe(values, configuration)
    if all(problem.is_warning for problem in values.problems):
        warn(values, configuration)
    return values.sorted_problems()


@attrs.frozen
class ConfigurationSource:
    """The file and the options of a server, to be read again when they are to be reloaded."""

    path: str | Path | None
    overrides: Overrides

    def load(self) -> Configuration:
        """L{load} them.

        @raise ConfigurationError: the configuration is invalid; lists every problem.
        """
        return load(self.path, self.overrides)


def load(
    path: str | Path | None = None,
    overrides: Overrides | None = None,
    environment: Mapping[str, str] | None = None,
) -> Configuration:
    """Read a configuration file, and fill in what the options and the defaults say.

    The files C{conf.d/*.toml} next to the file are read after it, in the order of their names; a variable
    C{MSMQ_SECTION_KEY} wins over files, an option over both.
    A relative path, in the file or an option, is relative to the working directory.

    @param path: the file; C{None} for the defaults.
    @param environment: the variables; by default those of the process.
    @raise ConfigurationError: the configuration is invalid; lists every problem.
    @raise LocalProtocolError: an argument has another type; names it.
    """
    check_load_arguments(path, overrides, Overrides)
    variables = os.environ if environment is None else environment
    values, configuration = _read(path, overrides or Overrides(), variables)
    if values.problems:
        raise ConfigurationError(values.sorted_problems())
    return configuration


def _read(
    path: str | Path | None, overrides: Overrides, environment: Mapping[str, str]
) -> tuple[ConfigurationValues, Configuration]:
    values = ConfigurationValues(None if path is None else str(path))
    if path is not None:
        values.read_file(Path(path))
        values.read_directory(Path(path).parent / DROP_INS)
    values.read_environment(environment)
    return values, SettingsBuilder(values, overrides).build()
