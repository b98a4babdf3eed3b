"""The glossary names classes that exist, where it says."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import tests

GLOSSARY = Path(tests.__file__).parent.parent / "docs" / "glossary.md"


class GlossaryTests(SynchronousTestCase):
    """C{docs/glossary.md}."""

    def test_every_term_leads_to_what_is_there(self) -> None:
        """Whoever follows the glossary from the document finds the class in its file."""
        rows = [
            line.split("|") for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if ".py`" in line
        ]
        places = [
            (name, file)
            for _, _, _, names, files, _ in rows
            for name, file in zip(
                re.findall(r"`(\w+)`", names), re.findall(r"`(\w+)\.py`", files), strict=True
            )
        ]
        self.assertGreater(len(places), 40)
        for name, file in places:
            module = importlib.import_module(f"msmq.structures.{file}")
            self.assertEqual(getattr(module, name).__module__, module.__name__)
