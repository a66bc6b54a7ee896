"""`fairspan completion [SHELL]`."""

from __future__ import annotations

from fairspan.cli.command import command
from fairspan.errors import DesignError


@command()
def completion(shell: str | None = None, /) -> None:
    """Let your shell complete commands and options.

    For example:

        fairspan completion
        fairspan completion zsh

    Args:
        shell: bash, zsh, fish or powershell. By default the shell that runs the command.
    """
    from cyclopts.completion.detect import ShellDetectionError

    from fairspan.cli import app

    try:
        file = app.install_completion(shell=shell)  # type: ignore[arg-type]
    except (ShellDetectionError, ValueError):
        raise DesignError("shell must be bash, zsh, fish or powershell: name one.") from None
    print(f"{file}: open a new shell to use it.")
