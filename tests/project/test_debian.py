"""The files of the Debian package; C{make deb-test} installs, starts, upgrades and purges it."""

from __future__ import annotations

import re
import subprocess

from twisted.trial.unittest import SynchronousTestCase

from msmq.service.configuration import check
from tests.project.example_files import PROJECT
from tests.project.test_packaging import SHIPPED

DEBIAN = PROJECT / "packaging" / "debian"


class DebianTests(SynchronousTestCase):
    """packaging/debian."""

    def test_scripts_can_be_read(self) -> None:
        """Each is a script that its shell accepts."""
        for name in ("build", "test", "postinst", "prerm", "postrm"):
            shell = (DEBIAN / name).read_text().split("\n", 1)[0].split("/")[-1].split()[-1]
            subprocess.run([shell, "-n", DEBIAN / name], check=True)

    def test_configuration(self) -> None:
        """The server accepts the configuration that it begins with."""
        self.assertEqual([problem for problem in check(DEBIAN / "msmq.toml") if not problem.is_warning], [])

    def test_files_exist(self) -> None:
        """What the package is made of is in the project."""
        build = (DEBIAN / "build").read_text()
        named = set(re.findall(r"(?<![\w/$}])(?:packaging|docs)/[\w./-]+\w", build)) - {
            "packaging/debian/build"
        }
        missing = [name for name in named if not (PROJECT / name).exists()]
        self.assertEqual(missing, [])
        self.assertIn("packaging/prometheus/alerts.yml", named)

    def test_wheel(self) -> None:
        """The wheel in it is built from everything that a build needs."""
        build = (DEBIAN / "build").read_text().replace("\\\n", " ")
        [copied] = re.findall(r"cp -r --parents (.+) \"\$work/source\"", build)
        self.assertEqual(set(SHIPPED) - set(copied.split()), set())
