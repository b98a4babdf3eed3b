"""The glossary names classes that exist, where it says."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import msmq
import tests

GLOSSARY = Path(tests.__file__).parent.parent / "docs" / "glossary.md"


class GlossaryTests(SynchronousTestCase):
    """C{docs/glossary.md}."""

    def test_every_term_leads_to_what_is_there(self) -> None:
        """Each term of the document leads to its class in its file."""
        rows = [
            line.split("|") for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if ".py`" in line
        ]
        places = [
            (name, file)
            for _, _, _, names, files, _ in rows
            for name, file in zip(
                re.findall(r"`(\w+)`", names), re.findall(r"`([\w/]+)\.py`", files), strict=True
            )
        ]
        self.assertGreater(len(places), 40)
        for name, file in places:
            module = importlib.import_module("msmq.structures." + file.replace("/", "."))
            self.assertEqual(getattr(module, name).__module__, module.__name__)

    def test_classes_of_the_other_documents_exist(self) -> None:
        """A search for the class that the glossary names for a term finds one class."""
        text = GLOSSARY.read_text(encoding="utf-8").partition("# The other documents")[2]
        named = set(re.findall(r"`([A-Z]\w+)`", text))
        self.assertGreater(len(named), 40)
        defined = Counter(
            name
            for path in Path(msmq.__file__).parent.rglob("*.py")
            for name in re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        )
        self.assertEqual({name: defined[name] for name in named if defined[name] != 1}, {})
