"""The documentation site: how pages are gathered; C{make docs} makes it and checks its links."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType

from twisted.trial.unittest import SynchronousTestCase

from tests.project.example_files import PROJECT

SITE = PROJECT / "docs" / "site"


def builder(name: str = "build") -> ModuleType:
    """A program that makes the site."""
    spec = importlib.util.spec_from_file_location(f"site_{name}", SITE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class SiteTests(SynchronousTestCase):
    """What is gathered and generated before Sphinx runs."""

    def setUp(self) -> None:
        self.build = builder()
        self.source = Path(self.mktemp())
        self.source.mkdir()

    def test_navigation(self) -> None:
        """Each page of the navigation exists, or is generated."""
        sections = tomllib.loads((SITE / "navigation.toml").read_text(encoding="utf-8"))["section"]
        pages = [page for section in sections for page in section.get("pages", ())]
        self.assertEqual(len(pages), len(set(pages)))
        missing = [page for page in pages if not (PROJECT / page).is_file()]
        self.assertEqual(missing, [f"reference/{name}.md" for name in ("api", "cli", "http", "metrics")])

    def test_links_to_files(self) -> None:
        """A file that a page links to is part of the site, and a directory leads to its page."""
        text = self.build.adapted(self.source, Path("docs/README.md"))
        self.assertIn("(../examples/index.md)", text)
        self.build.adapted(self.source, Path("docs/guide/bodies.md"))
        self.assertTrue((self.source / "examples" / "bodies.py").is_file())

    def test_pictures(self) -> None:
        """A picture that a page shows is part of the site."""
        self.build.adapted(self.source, Path("docs/guide/console.md"))
        self.assertTrue((self.source / "docs" / "guide" / "images" / "overview.png").is_file())

    def test_reference_of_the_command(self) -> None:
        """The help of each verb is a section."""
        text = self.build.command_reference()
        for verb in ("status", "queue create", "send", "receive"):
            self.assertIn(f"`msmq {verb}`", text)

    def test_reference_of_the_metrics(self) -> None:
        """Each metric is a row with its labels, those of queues, of the server and of histograms alike."""
        rows = builder("references").metrics_reference().splitlines()
        text = "Messages in a local queue, system queues included."
        self.assertIn(f"| `msmq_queue_messages` | gauge | `queue` | {text} |", rows)
        for name in (
            "msmq_store_commit_seconds",
            "msmq_standby",
            "msmq_dead_letters",
            "msmq_config_reloads_total",
        ):
            self.assertEqual(len([row for row in rows if row.startswith(f"| `{name}` |")]), 1, name)

    def test_reference_of_the_http_api(self) -> None:
        """Each operation of the API has a section with its role, parameters and keys of the body."""
        text = builder("references").http_reference()
        for operation in "GET /v1/status", "POST /v1/queues", "GET /v1/openapi.json", "GET /v1/transactions":
            self.assertIn(f"## `{operation}`", text)
        creation = text.split("## `POST /v1/queues`")[1].split("\n## ")[0]
        self.assertIn("Needs the role", creation)
        self.assertIn("| `path` | string | required |", creation)

    def test_faults_of_docstrings(self) -> None:
        """A link of a docstring that leads nowhere is a fault; one to Twisted is not."""
        output = (
            'adding directory\n/checkout/msmq/net/a.py:3: Cannot find link target for "nowhere"\n'
            '/checkout/msmq/net/a.py:4: Cannot find link target for "twisted.plugin.getPlugins"\n'
        )
        self.assertEqual(
            self.build.faults_of(output), ['msmq/net/a.py:3: Cannot find link target for "nowhere"']
        )
