"""Checks of a valid configuration against the machine, its store and its directory."""

from __future__ import annotations

from msmq.directory.factory import DirectoryDescriptionError
from msmq.plugins import PluginError
from msmq.service.configuration.values import ConfigurationValues
from msmq.service.directory_probe import try_directory
from msmq.service.exposure import exposure
from msmq.service.machine_check import machine_problems
from msmq.service.policy_plugins import probe_access, probe_router, probe_session_policy
from msmq.service.settings import Configuration
from msmq.storage.factory import StorageDescriptionError, probe_store


def probe_machine(values: ConfigurationValues, configuration: Configuration) -> None:
    """Check that the files, directories and group of the configuration exist on this machine."""
    for key, problem in machine_problems(configuration):
        values.refuse(key, problem)


def probe_storage(values: ConfigurationValues, configuration: Configuration) -> None:
    """Check that the store would open, as far as possible without opening it."""

    def probe() -> None:
        try:
            probe_store(configuration.storage, configuration.queue_manager.data)
        except StorageDescriptionError as error:
            raise ValueError(f"cannot be used: {error}") from error

    values.attempt(("storage", "backend"), probe)


def probe_directory(values: ConfigurationValues, configuration: Configuration) -> None:
    """Check that the directory accepts the account and has the base; an unreachable directory is a
    warning.
    """

    def probe() -> None:
        try:
            away = try_directory(configuration)
        except DirectoryDescriptionError as error:
            raise ValueError(f"cannot be used: {error}") from error
        if away:
            key = ("directory", "backend")
            problem = f"could not be checked: {away}"
            values.refuse(key, problem, is_warning=True)

    values.attempt(("directory", "backend"), probe)


def probe_plugins(values: ConfigurationValues, configuration: Configuration) -> None:
    """Check the arguments of the router, the access control and the session policy, as far as their plugins
    can.
    """
    security = configuration.security
    for key, probe, description in (
        (("routing", "backend"), probe_router, configuration.routing),
        (("security", "access"), probe_access, security.access),
        (("security", "session_policy"), probe_session_policy, security.session_policy),
    ):
        try:
            probe(description)
        except PluginError as error:
            values.refuse(key, f"cannot be used: {error}")


def warn(values: ConfigurationValues, configuration: Configuration) -> None:
    """Warnings about settings that are unsafe."""
    warning = exposure(configuration)
    if warning is not None:
        key = ("listen", "session")
        values.refuse(key, warning, is_warning=True)
