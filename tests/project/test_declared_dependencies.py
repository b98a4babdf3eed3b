"""The dependencies in setup.cfg are those that the package imports."""

from __future__ import annotations

import configparser
import re
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.test_architecture.imports import imports_of
from tests.test_architecture.sources import module_name, parsed_package, python_files

PROJECT = Path(__file__).resolve().parent.parent.parent

DISTRIBUTIONS = {
    "Crypto": "pycryptodome",
    "OpenSSL": "pyopenssl",
    "confluent_kafka": "confluent-kafka",
    "openlineage": "openlineage-python",
    "opentelemetry": "opentelemetry-api",
    "proton": "python-qpid-proton",
    "zope": "zope.interface",
}
"""The distributions that are not named as their top-level import."""


class MetadataTests(SynchronousTestCase):
    """setup.cfg says what the package needs."""

    def test_imports_are_declared(self) -> None:
        """Every imported distribution is in install_requires or in an extra for users."""
        configuration = configparser.ConfigParser()
        configuration.read(PROJECT / "setup.cfg", encoding="utf-8")
        lists = [configuration["options"]["install_requires"]]
        lists += [
            text
            for name, text in configuration["options.extras_require"].items()
            if name not in ("test", "lint")
        ]
        declared = {name.lower() for text in lists for name in re.findall(r"(?m)^[\w.-]+", text)}
        undeclared = {
            f"{path.relative_to(PROJECT)} imports {needed.name}"
            for path in python_files("msmq")
            for needed in imports_of(module_name(path), parsed_package()[module_name(path)])
            # Users of the fixtures for pytest have it.
            if (module_name(path), needed.name) != ("msmq.testing.pytest_fixtures", "pytest")
            and (top := needed.name.split(".")[0]) not in sys.stdlib_module_names | {"msmq"}
            and DISTRIBUTIONS.get(top, top.lower()) not in declared
        }
        self.assertEqual(undeclared, set())
