"""C{msmq completion}: shell scripts that complete verbs and options."""

from __future__ import annotations

import click

from msmq.cli.options import Settings, common_options, pass_settings
from msmq.structures.status import MQError, Status

VARIABLE = "_MSMQ_COMPLETE"


@click.command
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common_options
@pass_settings
def completion(settings: Settings, shell: str) -> None:
    """Print the script with which a shell completes this command: eval "$(msmq completion bash)"."""
    settings.refuse_on()
    from click.shell_completion import get_completion_class

    from msmq.cli.command import command

    kind = get_completion_class(shell)
    assert kind is not None
    try:
        script = kind(command, {}, "msmq", VARIABLE).source()
    except RuntimeError as error:
        raise MQError(Status.MQ_ERROR_UNSUPPORTED_OPERATION, str(error)) from error
    settings.output.write(script)
    settings.output.flush()
