"""Table of verbs, and the click group that imports the module of a verb on first use.

A new verb is a module in the folder of its family and a line here.  The line repeats the first sentence of
the command's docstring, so that C{msmq --help} imports none of the modules.
"""

from __future__ import annotations

from importlib import import_module
from keyword import iskeyword
from typing import Final

import attrs
import click

_SPACE: Final = 6
"""Columns of a line of help other than the name of a verb and its summary."""


@attrs.frozen
class VerbEntry:
    """A verb, or a group of verbs.

    @ivar module: the module with the click command of the verb's name; a name that is a Python keyword has an
        underscore appended.
    @ivar summary: the first sentence of that command's help.
    """

    module: str
    summary: str


VERBS: Final = {
    "acl": VerbEntry("msmq.cli.queues.acl", "Show, change and explain the access control of a queue."),
    "alarms": VerbEntry("msmq.cli.server.alarms", "List what needs attention, and what to do about it."),
    "apply": VerbEntry(
        "msmq.cli.queues.apply",
        "Create and change queues to match FILE, and print the differences.",
    ),
    "archive": VerbEntry(
        "msmq.cli.files.archive",
        "Write, show, verify and erase an archive of logs, journals, dead letters and events.",
    ),
    "backup": VerbEntry(
        "msmq.cli.server.backup",
        "Back up the data directory into DIR, and verify the backup; the server may run.",
    ),
    "bridge": VerbEntry(
        "msmq.cli.server.bridge",
        "List, show, pause, resume and test the routes to other brokers; check a configuration.",
    ),
    "certificate": VerbEntry(
        "msmq.cli.server.certificate",
        "Create, import, list, publish and delete signing certificates.",
    ),
    "check": VerbEntry(
        "msmq.cli.server.check",
        "Check the server for a monitoring system: print one line with the problems and the performance "
        "data.",
    ),
    "completion": VerbEntry(
        "msmq.cli.server.completion",
        'Print the script with which a shell completes this command: eval "$(msmq completion bash)".',
    ),
    "config": VerbEntry("msmq.cli.server.config", "Check, show and reload the configuration of a server."),
    "context": VerbEntry(
        "msmq.cli.server.context",
        "Manage contexts: named servers, one of which is the default of the command.",
    ),
    "deadletter": VerbEntry("msmq.cli.messages.deadletter", "List, show, requeue and discard dead letters."),
    "decode": VerbEntry(
        "msmq.cli.files.decode",
        "Print the packets in FILE, or in standard input without FILE or with -, as JSON lines.",
    ),
    "diagnostics": VerbEntry(
        "msmq.cli.server.diagnostics", "Collect what a support case needs into FILE, a .tar.gz archive."
    ),
    "discover": VerbEntry(
        "msmq.cli.enterprise.discover", "Find directory servers by broadcast on the networks of this host."
    ),
    "double": VerbEntry(
        "msmq.cli.server.double",
        "Receive messages as a queue manager in memory, with the faults of a script, and print what happens.",
    ),
    "drain": VerbEntry(
        "msmq.cli.queues.drain",
        "Move the messages of QUEUE, and those that arrive later, to a queue of another queue manager.",
    ),
    "enterprise": VerbEntry(
        "msmq.cli.enterprise.enterprise",
        "Set the members, roles, sites and links of an enterprise, and check the file that describes one.",
    ),
    "events": VerbEntry(
        "msmq.cli.server.events",
        "Print the event log: results of messages, and changes by operators.",
    ),
    "explain": VerbEntry(
        "msmq.cli.messages.explain",
        "Show everything known about the message ID: where it is, what happened to it, and why.",
    ),
    "export": VerbEntry(
        "msmq.cli.files.export",
        "Export the stored messages of each QUEUE to Parquet files; the server may run.",
    ),
    "identity": VerbEntry(
        "msmq.cli.server.backup",
        "Show the identifier of the queue manager, keep it, or give a clone a new one.",
    ),
    "import": VerbEntry(
        "msmq.cli.files.import_files",
        "Send copies of the messages in exported files or directories, and print their number.",
    ),
    "message": VerbEntry("msmq.cli.messages.message", "Show, remove, copy and move messages."),
    "move": VerbEntry("msmq.cli.messages.move", "Move the message ID to QUEUE."),
    "outgoing": VerbEntry(
        "msmq.cli.queues.outgoing", "Show, pause, resume, redirect, purge and retry the outgoing queues."
    ),
    "ping": VerbEntry(
        "msmq.cli.enterprise.ping",
        "Check whether the queue manager of HOST, a name or an address, would accept a session.",
    ),
    "queue": VerbEntry(
        "msmq.cli.queues.queue", "Create, list, show, change, pause, purge, replay and delete queues."
    ),
    "quota": VerbEntry("msmq.cli.queues.quota", "Show and set the quotas of all queues together."),
    "receive": VerbEntry(
        "msmq.cli.messages.receive", "Receive messages from QUEUE, a path or a format name."
    ),
    "restore": VerbEntry("msmq.cli.server.backup", "Restore the backup in DIR into a new data directory."),
    "route": VerbEntry(
        "msmq.cli.enterprise.topology",
        "Show the route of a message from SOURCE to DESTINATION, queue managers by name or GUID.",
    ),
    "send": VerbEntry("msmq.cli.messages.send", "Send messages to DESTINATION, and print their identifiers."),
    "session": VerbEntry("msmq.cli.server.session", "List and close the sessions with other queue managers."),
    "shadow": VerbEntry(
        "msmq.cli.messages.shadow",
        "List and show the shadows of queues, and compare the answers of both consumers.",
    ),
    "status": VerbEntry("msmq.cli.server.status", "Show the identity and the state of the queue manager."),
    "store": VerbEntry("msmq.cli.server.store", "Migrate, check, repair and discard message stores."),
    "token": VerbEntry(
        "msmq.cli.server.token", "Create tokens for callers of the control API and the console."
    ),
    "top": VerbEntry(
        "msmq.cli.server.top",
        "Show the busiest queues or sessions, with their rates per second, until Ctrl-C.",
    ),
    "topology": VerbEntry(
        "msmq.cli.enterprise.topology", "Show the sites, links and queue managers of the enterprise."
    ),
    "transaction": VerbEntry("msmq.cli.messages.transaction", "List, show and abort transactions."),
    "watch": VerbEntry(
        "msmq.cli.watch.watch",
        "Show rates, depths, ages, sessions and alarms of a server on the whole screen, until q.",
    ),
}


class Verbs(click.Group):
    """Click group that imports the module of a verb on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all verbs."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb of this name."""
        entry = VERBS.get(cmd_name)
        if entry is None:
            return None
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command = getattr(import_module(entry.module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs with their summaries, as click does, without importing them."""
        limit = formatter.width - _SPACE - max(map(len, VERBS))
        rows = [
            (name, click.Command(name, help=entry.summary).get_short_help_str(limit))
            for name, entry in VERBS.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
