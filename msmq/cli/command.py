"""The command C{msmq}: dispatch of verbs, errors as one line, exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from traceback import print_exc, walk_tb
from typing import Final

import click

from msmq.cli.exit_status import DONE, INTERRUPTED, REFUSED, TIMED_OUT, WRONG_USAGE
from msmq.cli.options import common_options
from msmq.cli.output import OutputError, ReaderEnded, broken_output, complain, system_error
from msmq.cli.suggestions import usage_error
from msmq.cli.verbs import Verbs
from msmq.errors import MsmqError
from msmq.structures.status import MQError, Status

TRACEBACK: Final = "MSMQ_TRACEBACK"
"""The environment variable that has an internal error print its traceback."""


@click.group(cls=Verbs, name="msmq")
@click.version_option(package_name="msmq", prog_name="msmq")
@common_options
def command() -> None:
    """Manage and monitor an msmq queue manager; send and receive messages.

    Exit status: 0 done, 1 refused or a check found faults, 2 wrong usage, 3 time-out.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status; every error becomes one line."""
    if arguments is None and "_MSMQ_COMPLETE" in os.environ:
        # The completion script of the shell, from msmq completion, requests the possible continuations.
        from click.shell_completion import shell_complete

        return shell_complete(command, {}, "msmq", "_MSMQ_COMPLETE", os.environ["_MSMQ_COMPLETE"])
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
        if _lacks_verb(error, wrong):
            return _missing_verb(wrong)
        return _failed(WRONG_USAGE, usage_error(error), wrong.command_path if wrong else "msmq")
    except MQError as error:
        return _failed(TIMED_OUT if error.status is Status.MQ_ERROR_IO_TIMEOUT else REFUSED, str(error))
    except OutputError as error:
        return _without_output(error)
    except (click.Abort, KeyboardInterrupt):
        return _failed(INTERRUPTED, "interrupted")
    except MsmqError as error:
        return _failed(REFUSED, str(error))
    except OSError as error:
        if _is_of_click(error):
            return _without_output(broken_output(error))
        return _failed(REFUSED, system_error(error))
    except Exception as error:
        if os.environ.get(TRACEBACK):
            print_exc()
        hint = (
            "" if os.environ.get(TRACEBACK) else f"; {TRACEBACK}=1 prints where, for a report of this error"
        )
        return _failed(REFUSED, f"internal error in this command: {type(error).__name__}: {error}{hint}")


def _lacks_verb(error: click.ClickException, context: click.Context | None) -> bool:
    """Whether there are options and no verb, which click reports without the verbs."""
    if context is None or not isinstance(context.command, click.Group):
        return False
    return type(error) is click.UsageError and context.invoked_subcommand is None


def _missing_verb(context: click.Context | None) -> int:
    if context is None or not isinstance(context.command, click.Group):
        return _failed(WRONG_USAGE, "arguments are missing; --help lists them")
    verbs = ", ".join(context.command.list_commands(context))
    path = context.command_path
    return _failed(WRONG_USAGE, f"a verb is missing, one of {verbs}; see {path} --help", path)


def _is_of_click(error: OSError) -> bool:
    """Whether click raised an error of the system: it writes help texts and versions itself."""
    *_, (frame, _) = walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).startswith("click.")


def _without_output(error: OutputError) -> int:
    if isinstance(error, ReaderEnded):
        # As every other command of a pipeline: its reader has all that it wanted.
        return REFUSED
    return _failed(REFUSED, str(error))


def _failed(status: int, problem: str, who: str = "msmq") -> int:
    complain(problem, who)
    return status
