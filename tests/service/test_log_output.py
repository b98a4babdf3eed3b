"""The log of a server in the foreground."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import attrs
from twisted.application.service import Application
from twisted.logger import ILogObserver, Logger, LogPublisher, eventsFromJSONLogFile, formatEvent
from twisted.python.failure import Failure
from twisted.scripts._twistd_unix import ServerOptions
from twisted.trial.unittest import SynchronousTestCase

from msmq.service.configuration import check
from msmq.service.process.log_output import LogOutput
from msmq.service.settings import LogSettings
from msmq.service.tap import makeService
from tests.service.test_tap import parsed


class ObserverTests(SynchronousTestCase):
    """C{twistd --logger} with an observer of Twisted's that needs a file."""

    def observer(self, *options: str) -> Any:
        """The observer that C{twistd} finds when it begins to log."""
        found = ServerOptions()
        # Nothing is made there before the service starts.
        found.parseOptions([*options, "msmq", "--storage", "memory", "--data", "/tmp/msmq-nothing"])
        self.assertIsNone(found["logger"])
        application = Application("msmq")
        makeService(cast(Any, found).subOptions).setServiceParent(cast(Any, application))
        return cast(Any, application).getComponent(ILogObserver)

    def logged(self, observer: Any) -> None:
        log = Logger(namespace="msmq.net.session", observer=observer)
        log.warn("message {message} from {peer}: {data}", message=UUID(int=7), peer=("a", 1), data=b"\xff\n")

    def test_json(self) -> None:
        """Each line is an object, and Twisted's reader has the text of the event back."""
        stream = io.StringIO()
        self.patch(sys, "stdout", stream)
        self.logged(self.observer("-n", "--logger=twisted.logger.jsonFileLogObserver"))
        [line] = stream.getvalue().splitlines()
        self.assertEqual(json.loads(line)["log_namespace"], "msmq.net.session")
        stream.seek(0)
        [event] = eventsFromJSONLogFile(stream)
        self.assertEqual(formatEvent(event), f"message {UUID(int=7)} from ('a', 1): b'\\xff\\n'")

    def test_file(self) -> None:
        """With C{--logfile} it writes there; so does the observer of text."""
        for name, start in (("json", "{"), ("text", "20")):
            path = Path(self.mktemp())
            self.logged(
                self.observer(f"--logger=twisted.logger.{name}FileLogObserver", f"--logfile={path.resolve()}")
            )
            self.assertTrue(path.read_text(encoding="utf-8").startswith(start))


class LogOutputTests(SynchronousTestCase):
    """Levels and forms."""

    def setUp(self) -> None:
        self.stream = io.StringIO()

    def publisher(self, settings: LogSettings) -> LogPublisher:
        """A log with these settings."""
        self.output = LogOutput(settings, self.stream)
        return LogPublisher(self.output)

    def test_characters_that_the_stream_does_not_have(self) -> None:
        """A line with names that the locale cannot write, or that are not Unicode, is not lost."""
        for code, shown in (("utf-8", "\u0448\\ud800"), ("latin-1", "\\u0448\\ud800")):
            for form in ("text", "journal"):
                with self.subTest(code=code, form=form):
                    written = io.BytesIO()
                    output = LogOutput(LogSettings(format=form), io.TextIOWrapper(written, code))
                    log = Logger(namespace="msmq.net.somewhere", observer=LogPublisher(output))
                    log.info("queue {name}", name="\u0448\ud800")
                    self.assertIn(f"queue {shown}\n", written.getvalue().decode(code))

    def test_levels(self) -> None:
        """Lines below the level are omitted; a room may have a level of its own."""
        publisher = self.publisher(LogSettings(level="warn", levels={"net": "debug", "directory": "error"}))
        for room in ("net", "manager", "directory"):
            log = Logger(namespace=f"msmq.{room}.somewhere", observer=publisher)
            for level in ("debug", "info", "warn", "error"):
                getattr(log, level)(f"{room}-{level}")
        written = [line.rpartition(" ")[2] for line in self.stream.getvalue().splitlines()]
        self.assertEqual(
            written,
            [
                *("net-debug", "net-info", "net-warn", "net-error"),
                *("manager-warn", "manager-error"),
                "directory-error",
            ],
        )
        self.output.configure(LogSettings(level="critical"))
        Logger(namespace="msmq.net", observer=publisher).error("not any more")
        self.assertNotIn("not any more", self.stream.getvalue())

    def test_json(self) -> None:
        """Each line is an object, with any fields, and with the traceback of a failure."""
        publisher = self.publisher(LogSettings(format="json"))
        log = Logger(namespace="msmq.net.session", observer=publisher)
        log.info("peer {peer}\nsaid {data}", peer=UUID(int=7), data=b"\xff")
        try:
            raise ValueError("wrong")
        except ValueError:
            log.failure("it failed", Failure())
        Logger(namespace="elsewhere", observer=publisher).warn("plain")
        first, second, third = map(json.loads, self.stream.getvalue().splitlines())
        self.assertEqual((first["level"], first["room"], first["peer"]), ("info", "net", str(UUID(int=7))))
        self.assertIn("peer 0000", first["text"])
        self.assertEqual((second["level"], second["text"]), ("critical", "it failed"))
        self.assertIn("ValueError: wrong", second["traceback"])
        self.assertEqual((third["level"], third["room"], third["text"]), ("warn", "elsewhere", "plain"))

    def test_journal(self) -> None:
        """Each line, those of a traceback too, has its priority, and none has the time."""
        publisher = self.publisher(LogSettings(format="journal", level="debug"))
        log = Logger(namespace="msmq.net", observer=publisher)
        log.debug("one")
        log.error("two\nlines")
        self.assertEqual(
            self.stream.getvalue().splitlines(),
            ["<7>[msmq.net#debug] one", "<3>[msmq.net#error] two", "<3>lines"],
        )

    def test_twistd_uses_it(self) -> None:
        """In the foreground the application offers it to twistd; with options of its own twistd decides."""
        options = parsed("--name", "ALPHA")
        for of_twistd, is_offered in (
            ({"nodaemon": True}, True),
            ({"nodaemon": True, "logfile": "-"}, True),
            ({"nodaemon": True, "logfile": "here.log"}, False),
            ({"nodaemon": True, "logger": "some.factory"}, False),
            ({"nodaemon": False}, False),
        ):
            options.parent = cast(Any, of_twistd)
            application = Application("msmq")
            makeService(options).setServiceParent(application)
            found = application.getComponent(ILogObserver, None)
            self.assertEqual(isinstance(found, LogOutput), is_offered, of_twistd)


class KeyTests(SynchronousTestCase):
    """C{[log]}."""

    def test_mistakes(self) -> None:
        """An unknown level, form or room is reported with its line."""
        for text, words in (
            ('level = "loud"', 'log.level: must be "debug", "info"'),
            ('format = "xml"', "log.format: must be"),
            ('levels = { nett = "debug" }', "log.levels: names"),
            ('levels = { net = "loud" }', "log.levels: of net must be"),
            ('levels = "debug"', "log.levels: must be a table, not text"),
        ):
            path = Path(self.mktemp())
            path.write_text(f"[log]\n{text}\n")
            [problem] = check(path)
            self.assertIn(f":2: {words}", str(problem))


class EventIdentifierTests(SynchronousTestCase):
    """The identifier of an event is in each format."""

    def logged(self, kind: str) -> str:
        """One event of the package, and one of another program."""
        stream = io.StringIO()
        output = LogOutput(attrs.evolve(LogSettings(), format=kind), stream)
        Logger(namespace="msmq.manager.flow_control.FlowControl", observer=output).info(
            "the store has space again"
        )
        Logger(namespace="other", observer=output).info("the shop is open")
        return stream.getvalue()

    def test_formats(self) -> None:
        """Text and journal have it behind the level, JSON as a key; an event of another program has none."""
        for kind in ("text", "journal"):
            ours, others = self.logged(kind).splitlines()
            self.assertIn("[msmq.manager.flow_control.FlowControl#info 2011] the store has space again", ours)
            self.assertIn("[other#info] the shop is open", others)
        ours, others = map(json.loads, self.logged("json").splitlines())
        self.assertEqual((ours["event_id"], ours["text"]), (2011, "the store has space again"))
        self.assertNotIn("event_id", others)
