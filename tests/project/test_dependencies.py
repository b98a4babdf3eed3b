"""What an installation requires: its licences, audit and bill of materials (C{packaging/dependencies.py})."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.project.example_files import PROJECT

METADATA = "Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n{more}"


class ProgramTestCase(SynchronousTestCase):
    """The program in an environment with other packages, which C{msmq[all]} is made to require."""

    audit_seconds = "60"

    def setUp(self) -> None:
        self.directory = Path(self.mktemp())
        self.directory.mkdir()

    def install(self, name: str, *lines: str) -> None:
        """Add the metadata of a package, before all that is installed."""
        metadata = self.directory / f"{name.replace('-', '_')}-1.0.dist-info"
        metadata.mkdir(exist_ok=True)
        more = "".join(f"{line}\n" for line in lines)
        (metadata / "METADATA").write_text(METADATA.format(name=name, more=more), encoding="utf-8")

    def run_program(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, os.fspath(PROJECT / "packaging" / "dependencies.py"), *arguments],
            env={
                **os.environ,
                "PYTHONPATH": os.fspath(self.directory.resolve()),
                "MSMQ_AUDIT_SECONDS": self.audit_seconds,
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


class DependenciesTests(ProgramTestCase):
    """What the metadata of the packages says."""

    def test_licences(self) -> None:
        """A licence that is not on the list is refused, also where a dependency of a dependency brings it."""
        self.install(
            "msmq", "License: MIT", "Requires-Dist: direct", 'Requires-Dist: unused; extra == "test"'
        )
        self.install(
            "direct", "License-Expression: MIT OR Apache-2.0", "Requires-Dist: indirect; extra == 'fast'"
        )
        accepted = self.run_program("licences")
        self.assertEqual(accepted.returncode, 0, accepted.stdout + accepted.stderr)
        self.assertIn("direct 1.0: Apache-2.0, MIT\n", accepted.stdout)
        self.assertNotIn("unused", accepted.stdout)
        self.install("deep", "Classifier: License :: OSI Approved :: GNU Affero General Public License v3")
        self.install("indirect", "License: MIT", "Requires-Dist: deep")
        self.install("msmq", "License: MIT", "Requires-Dist: direct[fast]")
        refused = self.run_program("licences")
        self.assertEqual(refused.returncode, 1)
        self.assertIn(
            "deep has a licence that is not accepted: GNU Affero General Public License v3", refused.stdout
        )

    def test_bill_of_materials(self) -> None:
        """It has what the extras require, what that requires, and the JavaScript of the console."""
        self.install("msmq", "Provides-Extra: all", 'Requires-Dist: direct; extra == "all"')
        self.install("direct", "License-Expression: MIT", "Requires-Dist: Indirect_One")
        self.install("indirect-one", "License-Expression: ISC")
        path = self.directory / "bill" / "msmq.cdx.json"
        ended = self.run_program("sbom", os.fspath(path))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        bill = json.loads(path.read_text(encoding="utf-8"))
        self.assertEqual((bill["bomFormat"], bill["metadata"]["component"]["name"]), ("CycloneDX", "msmq"))
        components = {each["name"]: each for each in bill["components"]}
        self.assertEqual(components["indirect-one"]["purl"], "pkg:pypi/indirect-one@1.0")
        self.assertEqual(components["direct"]["licenses"], [{"license": {"id": "MIT"}}])
        self.assertIn("d3-force", components)
        self.assertNotIn("axe-core", components)
        edges = {each["ref"]: each.get("dependsOn", []) for each in bill["dependencies"]}
        self.assertEqual(edges["pkg:pypi/direct@1.0"], ["pkg:pypi/indirect-one@1.0"])

    def test_missing(self) -> None:
        """A bill that would lack something is not written; the package is named."""
        self.install("msmq", "Requires-Dist: away")
        path = self.directory / "msmq.cdx.json"
        ended = self.run_program("sbom", os.fspath(path))
        self.assertEqual(ended.returncode, 1)
        self.assertIn("not installed, so its version is unknown: away", ended.stderr)
        self.assertFalse(path.exists())


class AuditTests(ProgramTestCase):
    """Answers of PyPI, which C{pip_audit} on the path gives here."""

    def answers(self, *dependencies: dict[str, object]) -> subprocess.CompletedProcess[str]:
        output = json.dumps({"dependencies": dependencies})
        (self.directory / "pip_audit.py").write_text(f"print({output!r})\n", encoding="utf-8")
        return self.run_program("audit")

    def test_vulnerability(self) -> None:
        """A known vulnerability fails, with the version that is free of it."""
        found = {"id": "CVE-2026-1", "fix_versions": ["2.0"]}
        ended = self.answers({"name": "direct", "version": "1.0", "vulns": [found]})
        self.assertEqual(ended.returncode, 1)
        self.assertIn("direct 1.0: CVE-2026-1, fixed in 2.0\n", ended.stdout)

    def test_nothing_known(self) -> None:
        """Packages about which there is no answer are not counted as audited."""
        ended = self.answers(
            {"name": "direct", "version": "1.0", "vulns": []}, {"name": "other", "skip_reason": "not found"}
        )
        self.assertEqual(ended.returncode, 0)
        self.assertEqual(
            ended.stdout,
            "vulnerabilities: 0 known, in 1 packages that were audited\n"
            "vulnerabilities: 1 packages were not audited, such as: not found\n",
        )

    def test_no_end(self) -> None:
        """An audit that gets no answer ends, and says that it is skipped."""
        self.audit_seconds = "0.01"
        source = "import signal\nsignal.pause()\n"
        (self.directory / "pip_audit.py").write_text(source, encoding="utf-8")
        ended = self.run_program("audit")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("skipped, pip-audit was not done after 0.01 seconds", ended.stdout)

    def test_no_network(self) -> None:
        """Where PyPI cannot be asked, the audit says that it is skipped, and why."""
        source = "raise SystemExit('no route to host')\n"
        (self.directory / "pip_audit.py").write_text(source, encoding="utf-8")
        ended = self.run_program("audit")
        self.assertEqual(ended.returncode, 0)
        self.assertEqual(ended.stdout, "vulnerabilities: skipped, pip-audit got no data: no route to host\n")
