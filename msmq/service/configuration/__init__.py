"""The configuration of a server: one TOML file and its drop-ins, the environment, and options.

Everything that is wrong is reported, each with its file, line and key.
"""

from __future__ import annotations

from msmq.service.configuration.loading import ConfigurationSource as ConfigurationSource
from msmq.service.configuration.loading import check as check
from msmq.service.configuration.loading import load as load
from msmq.service.configuration.problems import ConfigurationError as ConfigurationError
from msmq.service.configuration.problems import ConfigurationProblem as ConfigurationProblem
from msmq.service.configuration.settings_builder import Overrides as Overrides
