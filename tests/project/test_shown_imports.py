"""What users copy from the documentation and the examples imports from public modules."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.project.example_files import EXAMPLES, PROJECT

PUBLIC = {
    *("msmq", "msmq.client", "msmq.interfaces", "msmq.pipeline.spark", "msmq.testing"),
    *("msmq.testing.contracts", "msmq.testing.pytest_fixtures"),
}
"""The modules that compatibility.md promises."""

WITH_INTERNALS = {
    *("demo_crash.py", "demo_messages.py", "demo_pipeline.py", "demo_servers.py"),
    *("enterprise/three_sites.py", "estate.ipynb", "lost_messages.py"),
}
"""The demo and the estate of three sites test the project itself; two reports use the tables of its jobs."""


def python_of(file: Path) -> list[str]:
    """The Python of a program, of a notebook's cells, or of the listings of a page."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        return ["".join(each["source"]) for each in cells if each["cell_type"] == "code"]
    if file.suffix == ".md":
        return [textwrap.dedent(each) for each in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)]
    return [text]


def imported_from(file: Path) -> set[str]:
    """The modules of this package that the Python in a file imports names from."""
    lines = "\n".join(python_of(file)).splitlines()
    found = (re.match(r"\s*(?:from|import) (msmq[\w.]*)", line) for line in lines)
    return {each[1] for each in found if each is not None}


class ShownImportTests(SynchronousTestCase):
    """What users copy from the documentation and the examples."""

    def internal_imports(self, files: Iterable[Path], directory: Path) -> dict[str, set[str]]:
        """The imports of internal modules in each file that has some."""
        found = {str(file.relative_to(directory)): imported_from(file) - PUBLIC for file in files}
        return {name: modules for name, modules in found.items() if modules}

    def test_pages(self) -> None:
        """Listings in the documentation import from the public modules only."""
        pages = [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")]
        self.assertIn("msmq.client", imported_from(PROJECT / "docs" / "guide" / "client.md"))
        self.assertEqual(self.internal_imports(pages, PROJECT), {})

    def test_examples(self) -> None:
        """Examples do too, but for those that are listed."""
        programs = [*EXAMPLES.rglob("*.py"), *EXAMPLES.rglob("*.ipynb"), *EXAMPLES.rglob("*.md")]
        self.assertEqual(set(self.internal_imports(programs, EXAMPLES)), WITH_INTERNALS)

    def test_compatibility_page(self) -> None:
        """The page names each public module."""
        page = (PROJECT / "docs" / "compatibility.md").read_text(encoding="utf-8")
        self.assertEqual({name for name in PUBLIC if f"`{name}`" not in page}, set())
