"""How the command is called, and what it says to a call that is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click

from msmq.cli import command as command_module
from msmq.cli.command import command
from msmq.cli.verbs import VERBS
from tests.cli.support import CommandTestCase

LONG = "x" * 300
"""A name that no file system takes, for any user."""

DIGITS = "9" * 5000
"""More digits than Python reads as a number."""


class UsageTests(CommandTestCase):
    """Wrong usage is status 2 and one line."""

    def test_wrong_options_are_named(self) -> None:
        """An error about the arguments names the verb and the argument."""
        for arguments, words in (
            (["--frobnicate"], ["--frobnicate"]),
            (["frobnicate"], ["frobnicate"]),
            (["send", "x", "--frobnicate"], ["msmq send", "--frobnicate"]),
            (["send"], ["msmq send", "DESTINATION"]),
            (["send", "x", "--priority", "8"], ["--priority", "8"]),
            (["send", "x", "--priority", "high"], ["--priority", "high"]),
            (["send", "x", "--count", "0"], ["--count"]),
            (["send", "x", "--ack", "reach,never"], ["--ack", "never"]),
            (["send", "x", "--body", "a", "--body-file", "b"], ["--body", "--body-file"]),
            (["send", "x", "--lines", "a", "--body", "b"], ["--lines", "--body"]),
            (["send", "x", "--lines", "a", "--count", "2"], ["--lines", "--count"]),
            (["send", "--lines", "a"], ["msmq send", "DESTINATION"]),
            (["send", "x", "--json-lines", "/nonexistent"], ["/nonexistent"]),
            (["send", "x", "--key", "k", "--count", "2"], ["msmq send", "--key", "--count"]),
            (["send", "x", "--body-file", "/nonexistent"], ["/nonexistent"]),
            (["send", "x", "--body-file", "a\0b"], ["a\\x00b"]),
            (["receive"], ["QUEUE"]),
            (["receive", "x", "--timeout", "-1"], ["--timeout"]),
            (["receive", "x", "--count", "-1"], ["--count"]),
            (["queue", "create", "x", "--privacy", "full"], ["msmq queue create", "--privacy", "full"]),
            (["queue", "create", "x", "--quota", "-1"], ["--quota"]),
            (["queue", "show"], ["PATH"]),
            (["queue", "purge"], ["PATH"]),
            (["queue", "set", "x"], ["msmq queue set", "nothing to set"]),
            (["queue", "set", "x", "--quota", "much"], ["--quota", "much"]),
            (["queue", "set", "x", "--transactional"], ["--transactional"]),
            (["queue", "set", "x", "--log-age", "old"], ["--log-age", "old"]),
            (["queue", "create", "x", "--log-size", "none"], ["--log-size", "none"]),
            (["queue", "replay", "x"], ["msmq queue replay", "--into"]),
            (["queue", "replay", "x", "--into", "y", "--from", "yesterday"], ["--from", "yesterday"]),
            (["queue", "replay", "x", "--into", "y", "--to", "-1"], ["--to", "-1"]),
            (["receive", "x", "--peek", "--transactional"], ["msmq receive", "--peek", "--transactional"]),
            (["move", "x"], ["msmq move", "QUEUE"]),
            (["message", "show", "7"], ["msmq message show", "--queue"]),
            (["queue", "browse", "x", "--limit", "0"], ["--limit"]),
            (["queue", "browse", "x", "--decode"], ["--decode", "--json"]),
            (["explain"], ["msmq explain", "ID"]),
            (["transaction"], ["msmq transaction", "list"]),
            (["transaction", "abort"], ["msmq transaction abort", "ID"]),
            (["deadletter", "list", "--limit", "0"], ["msmq deadletter list", "--limit"]),
            (["deadletter", "requeue"], ["msmq deadletter requeue", "ID"]),
            (["deadletter", "requeue", "x", "--all"], ["msmq deadletter requeue", "--all"]),
            (["deadletter", "requeue", "--all", "--edit", "f"], ["--edit", "one ID"]),
            (["deadletter", "list", "--group-by", "color"], ["--group-by", "color"]),
            (["deadletter", "list", "--since", "soon"], ["--since", "soon"]),
            (["deadletter", "discard"], ["msmq deadletter discard", "--all"]),
            (["top", "cats"], ["msmq top", "cats"]),
            (["top", "queues", "--by", "color"], ["--by", "color"]),
            (["events", "--tail", "1", "--since", "1h"], ["--tail", "--since"]),
            (["context", "use"], ["msmq context use", "NAME"]),
            (["context", "add", "x", "tcp:192.0.2.1:5"], ["msmq context add"]),
            (["completion", "tcsh"], ["msmq completion", "tcsh"]),
            (["outgoing", "retry-now"], ["msmq outgoing retry-now", "--all"]),
            (["outgoing", "purge"], ["msmq outgoing purge", "NAME"]),
            (["message", "remove"], ["msmq message remove", "--queue"]),
            (["message", "remove", "--all"], ["msmq message remove", "--queue"]),
            (["message", "remove", "x", "--limit", "1"], ["--limit"]),
            (["message", "remove", "7", "--yes"], ["--queue"]),
            (["message", "copy", "x"], ["--to"]),
            (["message", "move", "q"], ["msmq message move", "ID"]),
            (["outgoing", "pause"], ["msmq outgoing pause", "NAME"]),
            (["ping"], ["HOST"]),
            (["ping", "127.0.0.1:port"], ["port"]),
            (["ping", "127.0.0.1", "--timeout", "nan"], ["--timeout", "'nan' is not a number of seconds"]),
            (["receive", "x", "--timeout", "1e999"], ["--timeout", "'1e999' is not a number of seconds"]),
            (["receive", "x", "--timeout", "1 hour"], ["--timeout", "'1 hour' is neither", "12 h"]),
            (["send", "x", "--time-to-be-received", "500ms"], ["'500ms' is not a whole number of seconds"]),
            (["queue", "create", "x", "--quota", "64 KB"], ["--quota", "'64 KB' is neither", "kB"]),
            (["decode", "/nonexistent"], ["/nonexistent"]),
            (["config", "check"], ["FILE"]),
            ([], ["verb", "status"]),
            (["queue"], ["msmq queue", "verb", "create"]),
            (["--data", "x"], ["msmq: ", "verb", "status"]),
            (["--json", "queue", "--data", "x"], ["msmq queue: ", "verb", "create"]),
        ):
            with self.subTest(arguments=arguments):
                self.assert_refused(arguments, 2, *words)

    def test_member_for_a_command_without_a_server(self) -> None:
        """A command that works on files here does not run with --on, as if it were another member's files."""
        for arguments in (
            ["export", "events", "--output", "x", "--store", "y"],
            ["archive", "update", "x", "--store", "y"],
            ["archive", "show", "x"],
            ["archive", "check", "x"],
            ["archive", "compact", "x"],
            ["archive", "erase", "x", "--where", "label = 'a'", "--yes"],
            ["context", "add", "x", "/nonexistent"],
            ["context", "use", "x"],
            ["context", "list"],
            ["context", "remove", "x"],
            ["completion", "bash"],
        ):
            with self.subTest(arguments=arguments):
                self.assert_refused(
                    ["--on", "HQ", *arguments], 2, "--on HQ: this command works without a server"
                )

    def test_every_verb_explains_itself(self) -> None:
        """Each verb has a help of its own, which names the options that all have."""
        context = click.Context(command)

        def visit(group: click.Group, path: list[str]) -> None:
            for name in group.list_commands(context):
                verb = group.get_command(context, name)
                ended = self.msmq(*path, name, "--help")
                self.assertEqual(ended.status, 0)
                for option in ("--data", "--control", "--json"):
                    self.assertIn(option, ended.output)
                if isinstance(verb, click.Group):
                    visit(verb, [*path, name])

        visit(command, [])
        self.assertIn("receive", self.msmq("--help").output)

    def test_help_lists_every_verb_with_its_first_sentence(self) -> None:
        """The list in C{msmq --help} says of each verb what the verb's own help says first."""
        context = click.Context(command)
        for name, entry in VERBS.items():
            with self.subTest(verb=name):
                verb = command.get_command(context, name)
                assert verb is not None
                self.assertEqual(entry.summary, verb.get_short_help_str(200))
        listed = self.msmq("--help").output.partition("Commands:\n")[2]
        self.assertEqual([line.split()[0] for line in listed.splitlines()], list(VERBS))

    def test_version(self) -> None:
        """The version is printed."""
        self.assertRegex(self.msmq("--version").output, r"^msmq, version \d+\.\d+")

    def test_last_locator_holds(self) -> None:
        """Of several options that select a server the last one applies, those after the verb last of all."""
        for arguments in (
            ("--control", "/first", "status", "--control", "/last"),
            ("--control", "/first", "--control", "/last", "status"),
            ("--data", "/first", "status", "--control", "/last"),
        ):
            with self.subTest(arguments=arguments):
                self.assert_refused(arguments, 1, "MQ_ERROR_SERVICE_NOT_AVAILABLE", "at /last:")
        self.assert_refused(["--control", "/first", "status", "--data", "/l"], 1, "at /l/control.sock:")

    def test_control_as_a_data_directory(self) -> None:
        """What C{msmq.client} takes as the server is taken here too: the socket in a directory."""
        data = Path(self.mktemp())
        data.mkdir()
        self.assert_refused(["status", "--control", str(data)], 1, f"{data}/control.sock: No such file")
        self.patch(os, "environ", {**os.environ, "MSMQ_CONTROL": str(data)})
        self.assert_refused(["status"], 1, f"{data}/control.sock: No such file")
        self.assert_refused(["store", "check"], 1, f"{data}")

    def test_fault_of_the_command_is_one_line_too(self) -> None:
        """An unforeseen error ends without a traceback too."""

        def broken(*arguments: object) -> None:
            raise ZeroDivisionError("unexpected")

        self.patch(command_module.command, "invoke", broken)
        self.assert_refused(["status"], 1, "ZeroDivisionError", "unexpected")

    def test_error_lines_are_printable(self) -> None:
        """Text from a caller or a server in an error cannot break the line or control the terminal."""
        self.assert_refused(["status", "--control", "/a\nb\x1b[31m"], 1, "/a b\\x1b[31m")


class EmptyNameTests(CommandTestCase):
    """An empty argument, as a shell variable that is not set gives it."""

    def test_what_is_empty_is_named(self) -> None:
        """No server is asked, and no address of the control API is shown."""
        for arguments, what in (
            (["queue", "show", ""], "the queue"),
            (["receive", ""], "the queue"),
            (["acl", "show", ""], "the queue"),
            (["explain", ""], "the message"),
            (["move", "", "x"], "the message"),
            (["deadletter", "requeue", ""], "the message"),
            (["transaction", "show", ""], "the transaction"),
            (["outgoing", "show", ""], "the outgoing queue"),
        ):
            with self.subTest(arguments=arguments):
                self.assert_refused(
                    arguments, 1, f"MQ_ERROR_INVALID_PARAMETER: the name of {what} is empty\n"
                )

    def test_options_that_have_a_default(self) -> None:
        """Nothing is read from the working directory, sent or stored in place of what was meant."""
        for arguments in (
            ["import", ""],
            ["import", "x", "--into", ""],
            ["import", "x", "--progress", " "],
            ["export", "x", "--output", ""],
            ["export", "x", "--output", "y", "--store", ""],
            ["archive", "update", ""],
            ["archive", "compact", ""],
            ["archive", "erase", "", "--where", "label = 'x'"],
            ["backup", ""],
            ["restore", ""],
            ["identity", "renew", "--store", "", "--yes"],
            ["store", "migrate", "--to", ""],
            ["store", "check", "--store", ""],
            ["store", "discard", ""],
            ["send", "x", "--json-lines", ""],
            ["send", "x", "--lines", "y", "--key", ""],
            ["context", "add", "x", ""],
            ["status", "--data", ""],
            ["status", "--control", " "],
        ):
            with self.subTest(arguments=arguments):
                self.assert_refused(arguments, 2, "the value is empty")


class ExtremeValueTests(CommandTestCase):
    """Numbers and times that are too large."""

    def test_times(self) -> None:
        """A time before the year 1 is named."""
        for value in ("99999999d", f"{'9' * 400}w", "0001-01-01T00:00+05:00", "9999-12-31T23:00-05:00"):
            for verb in (["events"], ["deadletter", "list"]):
                with self.subTest(value=value[:40], verb=verb):
                    self.assert_refused([*verb, "--since", value], 2, "--since", value[:40], "year")

    def test_seconds(self) -> None:
        """No number of seconds is passed over because it is not a number."""
        for arguments in (
            ["drain", "x", "--to", "y", "--timeout", "nan"],
            ["shadow", "report", "x", "--late", "nan"],
            ["archive", "update", "x", "--interval", "nan"],
            ["receive", "x", "--timeout", "inf"],
        ):
            with self.subTest(arguments=arguments):
                self.assert_refused(arguments, 2, arguments[-2], arguments[-1])

    def test_identifiers(self) -> None:
        """A lookup_id with more digits than one has is taken for an identifier, which the server refuses."""
        for arguments in (["show", DIGITS, "--queue", "x"], ["remove", DIGITS, "--queue", "x", "--yes"]):
            self.assert_refused(
                ["message", *arguments, "--control", "/nonexistent/control.sock"],
                1,
                "MQ_ERROR_SERVICE_NOT_AVAILABLE",
            )

    def test_arguments_that_are_not_utf_8(self) -> None:
        """They are refused before anything is sent, since another text would name something else."""
        for arguments in (
            ["route", "\udcff", "b"],
            ["acl", "why", "\udcff", ".", "send"],
            ["queue", "find", "--label", "\udcff"],
            ["queue", "purge", "--yes", "a\udcff"],
            ["receive", "a\udcff"],
            ["deadletter", "list", "--group-by", "class", "--where", "\udcff"],
        ):
            with self.subTest(arguments=arguments):
                self.assert_refused([*arguments, "--control", "/nonexistent/control.sock"], 1, "is not UTF-8")

    def test_edited_messages(self) -> None:
        """A file that is JSON no further than a depth that nothing needs is refused as other files are."""
        file = Path(self.mktemp())
        for text in ("[" * 100_000, "{" * 200, ""):
            file.write_text(text)
            self.assert_refused(
                ["message", "copy", "1", "--queue", "x", "--to", "y", "--edit", str(file)], 2, "is not JSON"
            )

    def test_names_of_computers(self) -> None:
        """A name that cannot be resolved is one that does not answer."""
        token = Path(self.mktemp())
        token.write_text("a" * 40)
        token.chmod(0o600)
        for host in ("a..b", f"{'x' * 70}.example"):
            with self.subTest(host):
                self.assert_refused(
                    ["status", "--control", f"ssl:{host}:1", "--token-file", str(token)],
                    1,
                    "MQ_ERROR_SERVICE_NOT_AVAILABLE",
                    host,
                )


class EmptyServerTests(CommandTestCase):
    """Options that select a server, from a variable of a script that is not set."""

    def test_empty_values(self) -> None:
        """They select no other server, such as that of the environment."""
        self.patch(os, "environ", {**os.environ, "MSMQ_CONTROL": "/nonexistent/control.sock"})
        for option in ("--control", "--data", "--token-file"):
            for value in ("", " "):
                with self.subTest(option=option):
                    self.assert_refused(["queue", "purge", "x", option, value], 2, option, "empty")


class SystemErrorTests(CommandTestCase):
    """Files and directories that the system refuses."""

    def test_data_directories(self) -> None:
        """The data directory of another user, and the like, is named in a refusal."""
        for arguments in (["store", "check"], ["store", "discard", "log"]):
            with self.subTest(arguments=arguments):
                self.assert_refused(
                    ["--data", LONG, *arguments], 1, "MQ_ERROR_MESSAGE_STORAGE_FAILED: ", LONG, "too long"
                )
        # It runs the reactor, which that of a test process cannot do again.
        ended = subprocess.run(
            [sys.executable, "-m", "msmq.cli", "--data", LONG, "restore", "backup"],
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        self.assertEqual(ended.returncode, 1)
        self.assertRegex(ended.stderr, f"^msmq: MQ_ERROR_MESSAGE_STORAGE_FAILED: .*{LONG}.*too long\n$")

    def test_damaged_identity(self) -> None:
        """A data directory whose identity is damaged is neither backed up nor renewed."""
        data = Path(self.mktemp())
        (data / "msmq.log").mkdir(parents=True)
        (data / "identity.json").write_text("{")
        self.assert_refused(
            ["--data", str(data), "backup", self.mktemp(), "--store", "log"],
            1,
            "MQ_ERROR_MESSAGE_STORAGE_FAILED: ",
            "identity.json is damaged",
        )

    def test_other_files(self) -> None:
        """What a verb does not expect is the file and the reason all the same."""
        self.assert_refused(["export", "x", "--store", LONG, "--output", "y"], 1, LONG, "File name too long")

    def test_help_that_cannot_be_written(self) -> None:
        """Help texts end as other output does, when the disk is full."""
        for arguments in (["--help"], ["--version"], ["queue", "list", "--help"]):
            with self.subTest(arguments=arguments), open("/dev/full", "wb") as full:
                ended = subprocess.run(
                    [sys.executable, "-m", "msmq.cli", *arguments],
                    stdout=full,
                    stderr=subprocess.PIPE,
                    check=False,
                )
                self.assertEqual(
                    (ended.returncode, ended.stderr), (1, b"msmq: standard output: No space left on device\n")
                )

    def test_help_without_a_reader(self) -> None:
        """They end in silence when their reader has ended, as head does."""
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "wb") as pipe:
            ended = subprocess.run(
                [sys.executable, "-m", "msmq.cli", "--help"], stdout=pipe, stderr=subprocess.PIPE, check=False
            )
        self.assertEqual((ended.returncode, ended.stderr), (1, b""))
