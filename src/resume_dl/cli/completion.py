"""``resume-dl completion``."""

from __future__ import annotations

import click

from resume_dl.cli.run import say_whole

_INSTALL = {
    "bash": '# in ~/.bashrc:  eval "$(resume-dl completion bash)"',
    "zsh": '# in ~/.zshrc, after compinit:  eval "$(resume-dl completion zsh)"',
    "powershell": "# in $PROFILE:  resume-dl completion powershell | Out-String | Invoke-Expression",
    "fish": "# once:  resume-dl completion fish > ~/.config/fish/completions/resume-dl.fish",
}

_HELP = """Print the script that completes commands and options in a shell.

\b
bash: in ~/.bashrc, eval "$(resume-dl completion bash)"
zsh:  in ~/.zshrc after compinit, eval "$(resume-dl completion zsh)"
fish: resume-dl completion fish > ~/.config/fish/completions/resume-dl.fish
PowerShell: in $PROFILE, resume-dl completion powershell | Out-String | Invoke-Expression
"""


@click.command("completion", help=_HELP)
@click.argument("shell", type=click.Choice(list(_INSTALL)))
@click.pass_context
def command(context: click.Context, shell: str) -> int:
    """Print the script for the shell; it calls this program for each completion."""
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - only here

    from resume_dl.cli.powershell import register

    register()
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"no completion for {shell}")
    root = context.find_root().command
    # not made.source(): it starts bash to ask for its version, which a machine may lack
    complete = made(root, {}, "resume-dl", "_RESUME_DL_COMPLETE")
    say_whole(f"{_INSTALL[shell]}\n{complete.source_template % complete.source_vars()}")
    return 0
