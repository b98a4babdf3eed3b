"""The pages for readers: their listings do what they say, and their links lead somewhere."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import attrs
import psutil
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from msmq.control.client.client import ControlClient
from msmq.structures.status import MQError
from tests.patience import DEADLINE
from tests.servers import samba, slapd
from tests.servers.own_address import own_address
from tests.servers.prepared import bin_directory

PROJECT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")])
TUTORIALS = PROJECT / "docs" / "tutorial"

_LISTING = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_SERVER = re.compile(r"\.venv/bin/twistd .*--data (\S+)")
_SET_UP = re.compile(r"make |python3\.11 -m venv |\.venv/bin/pip |git ")
_VARIES = (
    (re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"), "GUID"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00"), "TIME"),
    (re.compile(r"(\\+)\d{5,}\b"), r"\1NUMBER"),
    (re.compile(r"\b\d+\.\d{1,3}$", re.MULTILINE), "MILLISECONDS"),
    (re.compile(r"(limit)=\d+"), r"\1=DESCRIPTORS"),
    (re.compile(r"[ \t]+"), " "),
)


@attrs.frozen
class Listing:
    """A piece of a page.

    @ivar expected: what stands in the next listing, if that shows the output of this one.
    """

    language: str
    text: str
    expected: str | None = None


def listings(page: Path) -> Iterator[Listing]:
    """The listings of a page, in their order."""
    found = [
        (language, textwrap.dedent(text))
        for language, text in _LISTING.findall(page.read_text(encoding="utf-8"))
    ]
    for (language, text), (next_language, next_text) in pairwise([*found, ("", "")]):
        yield Listing(language, text, next_text if next_language == "text" else None)


def comparable(output: str) -> str:
    """The output without what is another in each run."""
    for pattern, name in _VARIES:
        output = pattern.sub(name, output)
    return output.strip()


class LinkTests(SynchronousTestCase):
    """Links between pages."""

    def headings(self, page: Path) -> set[str]:
        text = _LISTING.sub("", page.read_text(encoding="utf-8"))
        titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}

    def test_links_lead_somewhere(self) -> None:
        """Every link to a file of ours names one that is there, and a heading that it has."""
        broken = []
        for page in PAGES:
            for link in _LINK.findall(_LISTING.sub("", page.read_text(encoding="utf-8"))):
                if "://" in link:
                    continue
                name, _, heading = link.partition("#")
                target = page.parent / name if name else page
                if not target.exists() or (heading and heading not in self.headings(target)):
                    broken.append(f"{page.relative_to(PROJECT)}: {link}")
        self.assertEqual(broken, [])

    def test_index_is_complete(self) -> None:
        """The index of the documents leads to each of them."""
        index = PROJECT / "docs" / "README.md"
        linked = {
            (index.parent / link).resolve() for link in _LINK.findall(index.read_text(encoding="utf-8"))
        }
        pages = {page for page in PAGES if (PROJECT / "docs") in page.parents and page != index}
        self.assertEqual(pages - linked, set())


class ReadingTests(SynchronousTestCase):
    """Readings that the code names by their numbers."""

    def test_every_number_is_explained(self) -> None:
        """The page of readings has each number that the code or another page names."""
        page = PROJECT / "docs" / "spec" / "readings.md"
        explained = set(re.findall(r"^\| (\d+) \|", page.read_text(encoding="utf-8"), re.MULTILINE))
        named = {
            number
            for path in [*(PROJECT / "msmq").rglob("*.py"), *PAGES]
            for numbers in re.findall(
                r"\breadings? ([\d, ]+(?: (?:to|and) \d+)?)", path.read_text(encoding="utf-8")
            )
            for number in re.findall(r"\d+", numbers)
        }
        self.assertEqual(named - explained, set())


class PythonListingTests(SynchronousTestCase):
    """Listings in Python."""

    def test_listings_are_pieces_of_the_examples(self) -> None:
        """Each stands, line by line, in a program that the tests run; so it works."""
        programs = [path.read_text(encoding="utf-8") for path in (PROJECT / "examples").rglob("*.py")]
        stray = []
        for page in PAGES:
            for listing in listings(page):
                if listing.language != "python":
                    continue
                compile(listing.text, str(page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                shifted = [textwrap.indent(listing.text, " " * depth) for depth in (0, 4, 8, 12)]
                if not any(piece in program for piece in shifted for program in programs):
                    stray.append(f"{page.relative_to(PROJECT)}: {listing.text}")
        self.assertEqual(stray, [])


class ShellListingTests(SynchronousTestCase):
    """Listings for the shell, run one after the other in a directory of their own."""

    addresses = tuple((f"127.0.0.{number}", own_address(number + 10)) for number in (2, 3, 4, 5))
    """Those of the pages, and those that are used instead."""

    def setUp(self) -> None:
        self.replaced = self.addresses
        self.environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TZ": "UTC"}
        # A path of trial's own may be longer than a unix socket's may be.
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.directory)
        (self.directory / "examples").symlink_to(PROJECT / "examples")
        (self.directory / "docs").symlink_to(PROJECT / "docs")

    def moved(self, text: str) -> str:
        for documented, used in self.replaced:
            text = re.sub(rf"{re.escape(documented)}\b", used, text)
        return text

    def start(self, command: str, data: str) -> None:
        """Start a server, and wait until it answers."""
        log = self.directory / f"{data}.output"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
            )
        self.addCleanup(process.wait, DEADLINE)
        self.addCleanup(process.terminate)
        client = ControlClient(self.directory / data / "control.sock")
        deadline = time.monotonic() + DEADLINE
        while process.poll() is None and time.monotonic() < deadline:
            try:
                if client.status()["state"] == "running":
                    return
            except MQError:
                pass
            time.sleep(0.05)
        self.fail(log.read_text(encoding="utf-8", errors="replace"))

    def run_page(self, *pages: Path, environment: Path | None = None) -> None:
        """Run every listing, and compare its output with the one that the page shows.

        @param pages: several, if the examples of one continue those of the page before.
        @param environment: its C{.venv}; by default one whose commands start at once.
        """
        if shutil.which("curl") is None:
            raise SkipTest("curl is not installed")
        (self.directory / ".venv").symlink_to(environment or bin_directory().parent)
        for listing in (listing for page in pages for listing in listings(page)):
            if listing.language != "sh" or _SET_UP.match(listing.text):
                continue
            script = self.moved(listing.text)
            server = _SERVER.match(script)
            if server is not None:
                self.start(script, server[1])
                continue
            done = subprocess.run(
                ["/bin/sh", "-eu"],
                input=script,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=DEADLINE,
                cwd=self.directory,
                env=self.environment,
            )
            self.assertEqual(done.returncode, 0, f"{script}\n{done.stdout}")
            if listing.expected is not None:
                self.assertEqual(comparable(done.stdout), comparable(self.moved(listing.expected)), script)

    def test_readme(self) -> None:
        """A newcomer who follows the README sees what it shows, with the commands as they are installed."""
        self.run_page(PROJECT / "README.md", environment=Path(sys.prefix))

    def test_first_broker(self) -> None:
        """A newcomer's broker processes and answers messages as the tutorial shows."""
        self.run_page(TUTORIALS / "first-broker.md")

    def test_first_client(self) -> None:
        """A newcomer's application sends and receives as the tutorial shows."""
        self.run_page(TUTORIALS / "first-client.md")

    def test_first_estate(self) -> None:
        """A newcomer's messages are routed, and wait, as the tutorial shows."""
        self.run_page(TUTORIALS / "first-estate.md")

    def test_operating(self) -> None:
        """The tasks of an operator are done as the guide does them."""
        guide = PROJECT / "docs" / "guide"
        tasks = (guide / "operating.md").read_text(encoding="utf-8").partition("## Tasks")[2]
        pages = [guide / name for name in re.findall(r"^\| \[.*?\]\((.*?)\) \|", tasks, re.MULTILINE)]
        self.assertIn(guide / "troubleshooting.md", pages)
        self.run_page(*pages)

    def test_from_windows(self) -> None:
        """An administrator of MSMQ does with the command what the cmdlets did."""
        self.run_page(PROJECT / "docs" / "guide" / "from-windows.md")

    def test_security(self) -> None:
        """Two servers whose sessions are encrypted, from making their keys to a message."""
        if shutil.which("openssl") is None:
            raise SkipTest("openssl is not installed")
        self.run_page(PROJECT / "docs" / "guide" / "security.md")

    def test_access(self) -> None:
        """Descriptors and rules of two servers are as the guide shows them."""
        self.run_page(PROJECT / "docs" / "guide" / "access.md")

    def test_directory(self) -> None:
        """The enterprise of the guide is as it says, and its messages take the route that it shows."""
        self.run_page(PROJECT / "docs" / "guide" / "directory.md")

    def test_estates(self) -> None:
        """The estate of the guide routes, waits and is maintained as the guide says."""
        self.run_page(PROJECT / "docs" / "guide" / "estates.md")

    def test_openldap(self) -> None:
        """Three servers join a new OpenLDAP directory by the listings of the guide alone."""
        slapd.program("slapd")
        self.addCleanup(self.end_daemon, "slapd.pid")
        self.run_page(PROJECT / "docs" / "guide" / "openldap.md")

    def test_active_directory(self) -> None:
        """Three servers join a domain by the listings of the guide alone."""
        # One with nothing in it, beside that of other tests.
        domain = samba.SambaServer(samba.ADDRESS.removesuffix("77") + "78")
        self.addCleanup(domain.remove)
        self.environment["SMB_CONF_PATH"] = os.fspath(domain.directory / "smb.conf")
        self.replaced = (
            ("127.0.0.5", domain.address),
            ("DC=example,DC=com", samba.DOMAIN),
            ("@example.com", "@msmq.test"),
            *self.addresses,
        )
        self.run_page(PROJECT / "docs" / "guide" / "active-directory.md")

    def end_daemon(self, file: str) -> None:
        """End a server that a page has started in the background, whose process this file names."""
        path = self.directory / file
        if path.exists():
            daemon = psutil.Process(int(path.read_text()))
            daemon.terminate()
            daemon.wait(DEADLINE)

    def test_files(self) -> None:
        """Messages go into files and back as the guide does it."""
        self.run_page(PROJECT / "docs" / "guide" / "files.md")

    def test_bodies(self) -> None:
        """Each body of the guide is read as it says."""
        self.run_page(PROJECT / "docs" / "guide" / "bodies.md")
