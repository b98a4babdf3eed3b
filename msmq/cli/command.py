"""The command itself: its verbs, and how whatever goes wrong becomes one line and an exit status."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Final

import click

from msmq.cli.options import common_options
from msmq.cli.output import OutputError, complain
from msmq.structures.status import MQError, Status

DONE: Final = 0
REFUSED: Final = 1
WRONG_USAGE: Final = 2
TIMED_OUT: Final = 3
INTERRUPTED: Final = 130
"""As every shell has it for the signal of Ctrl-C."""

_VERBS: Final = {
    "acl": "msmq.cli.acl",
    "certificate": "msmq.cli.certificate",
    "config": "msmq.cli.config",
    "deadletter": "msmq.cli.deadletter",
    "decode": "msmq.cli.decode",
    "discover": "msmq.cli.discover",
    "enterprise": "msmq.cli.enterprise",
    "explain": "msmq.cli.explain",
    "export": "msmq.cli.export",
    "import": "msmq.cli.import_files",
    "message": "msmq.cli.message",
    "move": "msmq.cli.move",
    "outgoing": "msmq.cli.transfer",
    "ping": "msmq.cli.ping",
    "queue": "msmq.cli.queue",
    "receive": "msmq.cli.receive",
    "route": "msmq.cli.route",
    "send": "msmq.cli.send",
    "session": "msmq.cli.transfer",
    "status": "msmq.cli.status",
    "topology": "msmq.cli.route",
    "transaction": "msmq.cli.transaction",
}
"""Each verb, or group of verbs, and the module that has a click command of that name.

What is a word of Python as well has an underscore behind it there.
"""


class Verbs(click.Group):
    """Imports the module of a verb when the verb is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every verb."""
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb of this name."""
        if cmd_name not in _VERBS:
            return None
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command = getattr(import_module(_VERBS[cmd_name]), name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Verbs, name="msmq")
@click.version_option(package_name="msmq", prog_name="msmq")
@common_options
def command() -> None:
    """Send, receive, and watch a queue manager of msmq.

    Exit status: 0 done, 1 refused or a check found faults, 2 wrong usage, 3 nothing came in time.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status; every error becomes one line."""
    try:
        with command.make_context("msmq", list(sys.argv[1:] if arguments is None else arguments)) as context:
            status = command.invoke(context)
            return status if isinstance(status, int) else DONE
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        return _missing_verb(error.ctx)
    except click.ClickException as error:
        wrong = getattr(error, "ctx", None)
        return _failed(WRONG_USAGE, error.format_message(), wrong.command_path if wrong else "msmq")
    except MQError as error:
        return _failed(TIMED_OUT if error.status is Status.MQ_ERROR_IO_TIMEOUT else REFUSED, str(error))
    except OutputError as error:
        return _failed(REFUSED, str(error))
    except (click.Abort, KeyboardInterrupt):
        return _failed(INTERRUPTED, "interrupted")
    except Exception as error:
        return _failed(REFUSED, f"a fault of this command: {type(error).__name__}: {error}")


def _missing_verb(context: click.Context | None) -> int:
    if context is None or not isinstance(context.command, click.Group):
        return _failed(WRONG_USAGE, "arguments are missing; --help lists them")
    verbs = ", ".join(context.command.list_commands(context))
    path = context.command_path
    return _failed(WRONG_USAGE, f"a verb is missing, one of {verbs}; see {path} --help", path)


def _failed(status: int, problem: str, who: str = "msmq") -> int:
    complain(problem, who)
    return status
