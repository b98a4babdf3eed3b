"""The alerts and the board for Prometheus and Grafana."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import get_args

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from msmq.alarm_limits import LITTLE_SPACE, NEARLY_FULL, OLD, RECENT_REFUSALS, SLOW_COMMIT
from msmq.control.server.alarms.manager_alarms import AlarmKind
from msmq.web.dashboard import text
from msmq.web.metrics import ALL_METRICS
from msmq.web.readiness import HEALTH_OF_ALARMS
from tests.project.example_files import PROJECT

RULES = PROJECT / "packaging" / "prometheus" / "alerts.yml"


ALERTS: Mapping[AlarmKind, str] = {
    "quota": "MsmqQuotaUsed",
    "paused": "MsmqQueuePaused",
    "unread": "MsmqQueueNotRead",
    "unreached": "MsmqNotDelivered",
    "state": "MsmqDown",
    "store_full": "MsmqStoreFull",
    "store_failed": "MsmqStoreFails",
    "disk_space": "MsmqStoreSpace",
    "slow_commits": "MsmqStoreSlow",
    "machine_quota": "MsmqQuotaUsed",
    "dead_letters": "MsmqDeadLetters",
    "refused": "MsmqRefused",
    "offline": "MsmqOffline",
    "clone": "MsmqCloneSuspected",
    "directory": "MsmqDirectoryLost",
    "directory_differences": "MsmqDirectoryDifferences",
    "bridge": "MsmqBridgeRouteStopped",
    "archive": "MsmqArchiveLate",
    "certificate": "MsmqCertificateExpires",
    "token": "MsmqTokenExpires",
}
"""The alert of each kind of alarm."""


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

    def test_each_alarm_has_an_alert(self) -> None:
        """Each kind of alarm has an alert, with the same threshold, and its consequence for the readiness."""
        rules = dict(re.findall(r"alert: (\w+)\n +expr: (.+)", RULES.read_text()))
        self.assertEqual(set(ALERTS), set(get_args(AlarmKind)))
        self.assertEqual(set(ALERTS), set(HEALTH_OF_ALARMS))
        self.assertEqual(set(ALERTS.values()) - set(rules), set())
        self.assertIn(f"[{RECENT_REFUSALS / 60:.0f}m]", rules["MsmqRefused"])
        for alert, threshold in (
            ("MsmqQueueNotRead", f"> {OLD:.0f}"),
            ("MsmqQuotaUsed", f"> {NEARLY_FULL}"),
            ("MsmqStoreSpace", f"< {LITTLE_SPACE}"),
            ("MsmqStoreSlow", f"> {SLOW_COMMIT}"),
        ):
            self.assertTrue(rules[alert].endswith(threshold), rules[alert])

    def test_the_board_is_of_the_table(self) -> None:
        """packaging/grafana/msmq.json is what C{python -m msmq.web.dashboard} prints."""
        self.assertEqual((PROJECT / "packaging" / "grafana" / "msmq.json").read_text(), text())
