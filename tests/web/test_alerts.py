"""The alerts and the board for Prometheus and Grafana."""

from __future__ import annotations

import re
import shutil
import subprocess

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from msmq.web.dashboard import text
from msmq.web.metrics import ALL_METRICS
from tests.project.example_files import PROJECT

RULES = PROJECT / "packaging" / "prometheus" / "alerts.yml"


class AlertTests(SynchronousTestCase):
    """packaging/prometheus."""

    def test_rules_and_their_tests(self) -> None:
        """The rules are valid, and each fires when it should and not before."""
        promtool = shutil.which("promtool")
        if promtool is None:
            raise SkipTest("promtool is not installed (Debian package prometheus)")
        for arguments in (("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")):
            done = subprocess.run([promtool, *arguments], cwd=RULES.parent, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_alert_is_tested_and_explained(self) -> None:
        """Each has a test, and a row on the page What to watch; both name no others."""
        rules = RULES.read_text()
        alerts = set(re.findall(r"alert: (\w+)", rules))
        self.assertEqual(
            alerts, set(re.findall(r"alertname: (\w+)", (RULES.parent / "alerts_test.yml").read_text()))
        )
        page = (PROJECT / "docs" / "guide" / "watching.md").read_text(encoding="utf-8")
        explained = re.findall(r"^\| `(Msmq\w+)` \| [^|]+ \| [^|]+ \|$", page, re.MULTILINE)
        self.assertEqual(alerts, set(explained))
        known = {metric.name for metric in ALL_METRICS}
        for name in re.findall(r"\b(msmq_[a-z_]+)", rules):
            self.assertIn(name.removesuffix("_bucket"), known)

    def test_the_board_is_of_the_table(self) -> None:
        """packaging/grafana/msmq.json is what C{python -m msmq.web.dashboard} prints."""
        self.assertEqual((PROJECT / "packaging" / "grafana" / "msmq.json").read_text(), text())
