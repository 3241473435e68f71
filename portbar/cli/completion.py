"""`portbar completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from portbar.cli.shared import examples, json_option, print_json

_SHELLS = ("bash", "zsh", "fish")

VARIABLE = "_PORTBAR_COMPLETE"
"""The environment variable by which a shell's script asks portbar for completions."""


@click.command(
    name="completion",
    epilog=examples(
        "portbar completion bash",
        "portbar completion zsh",
        "portbar completion fish > ~/.config/fish/completions/portbar.fish",
    ),
)
@click.argument("shell", type=click.Choice(_SHELLS))
@json_option
@click.pass_context
def command(ctx: click.Context, shell: str, as_json: bool) -> None:
    """Print what makes a shell complete portbar's commands, options, devices and records.

    For bash, put `eval "$(portbar completion bash)"` into ~/.bashrc.

    For zsh, put `eval "$(portbar completion zsh)"` into ~/.zshrc, after compinit.

    For fish, write the script to ~/.config/fish/completions/portbar.fish.

    `--device` offers the devices that an earlier command listed, so that a key press loads no driver.
    """
    kind = get_completion_class(shell)
    assert kind is not None, shell
    script = kind(ctx.find_root().command, {}, "portbar", VARIABLE).source()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script)
