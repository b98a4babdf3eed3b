"""The sections of the documents are found by searching the package for their numbers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from twisted.trial.unittest import SynchronousTestCase

from tests.test_architecture.sources import python_files

NO_RULE: Final = {
    # Introductions, samples, security considerations and appendices describe; their rules stand elsewhere.
    "MQBR": re.compile(r"(1\.3|4|5)(\.|$)"),
    "MQDMPR": re.compile(r"(1|2|5|6)(\.|$)"),
    "MQQB": re.compile(r"(1|2\.1|2\.3|3\.1\.1|3\.1\.4|3\.1\.7)$|(1\.\d|4|5|6)(\.|$)"),
    "MQSD": re.compile(r"(1|2\.3|4)(\.|$)"),
    # TA_ADDRESS and QUEUE_FORMAT travel in packets of other protocols; tests alone read them.
    "MQMQ": re.compile(r"2\.2\.(4|7)$"),
}
"""Sections that tests prove and that no docstring has to name."""

_TOKEN: Final = re.compile(
    r"\[(?:MS|MC)-(\w+)\]|(?<![\w.])(\d+(?:\.\d+)+)(?:\s+to\s+(\d+(?:\.\d+)+))?(?!\w|\.\d)"
)
_PROVEN: Final = re.compile(r"\b(MQ(?:QB|DMPR|MQ|SD|BR))-(\d+(?:\.\d+)*)-\d+\b")


def addresses(texts: Iterable[str]) -> dict[str, set[str]]:
    """The sections of each document that texts name; a number belongs to the document named before it."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for text in texts:
        document = ""
        for match in _TOKEN.finditer(text):
            name, first, last = match.groups()
            if name:
                document = name
            elif document:
                found[document].add(first)
                if last is not None:
                    chapter, _, begin = first.rpartition(".")
                    found[document].add(last)
                    if last.rpartition(".")[0] == chapter:
                        end = int(last.rpartition(".")[2])
                        found[document].update(f"{chapter}.{number}" for number in range(int(begin), end))
    return found


class AddressTests(SynchronousTestCase):
    """A rule is found by the number of its section."""

    def test_every_proven_section_is_named(self) -> None:
        """Each section of which a test proves a line is named in the package, timers included."""
        named = addresses(path.read_text(encoding="utf-8") for path in python_files("msmq"))
        proven = {
            match.groups()
            for path in python_files("tests")
            for match in _PROVEN.finditer(path.read_text(encoding="utf-8"))
        }
        missing = sorted(
            f"[MS-{document}] {section}"
            for document, section in proven
            if section not in named[document] and not NO_RULE[document].match(section)
        )
        self.assertEqual(missing, [])

    def test_addresses_are_read(self) -> None:
        """Lists and ranges count in full; versions and numbers before a document do not."""
        found = addresses(
            ['1.2 "[MS-MQQB] 3.1.2.1, 3.1.2.4 to 3.1.2.6 and (2.2); TLS 1.3"', "[MS-MQSD] 4.1x"]
        )
        self.assertEqual(found, {"MQQB": {"3.1.2.1", "3.1.2.4", "3.1.2.5", "3.1.2.6", "2.2", "1.3"}})
