"""Completion in a shell: the script that asks gradwire what may come next, printed or installed.

typer's own options are not used: they find out the shell or take its name, never both, and they end with SystemExit, which
gradwire.cli.ending takes for that of a plug-in. They also write the user's own files anew, which a full disk leaves empty.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

import typer

from gradwire.faults import InputFault
from gradwire.terminal_text import visible

NAME, ASKED_BY = "gradwire", "_GRADWIRE_COMPLETE"
INSTALL, SHOW = "--install-completion", "--show-completion"
SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def with_shell(words: Sequence[str]) -> list[str]:
    """A command line whose option for completion has the name of the shell, which need not be given.

    Raises InputFault if it is not, and cannot be found out either.
    """
    if list(words) not in ([INSTALL], [SHOW]):
        return list(words)
    from shellingham import ShellDetectionFailure, detect_shell

    try:
        shell, _ = detect_shell()
    except ShellDetectionFailure:
        shell = None
    if shell not in SHELLS:
        raise InputFault(f"{words[0]}: which shell this is cannot be found out; name it, e.g. {words[0]} bash")
    return [words[0], shell]


def answer_shells() -> None:
    """Makes typer answer a shell that asks what may come next, in each shell's own form."""
    if ASKED_BY in os.environ:
        from typer._completion_classes import completion_init

        completion_init()


def _known(option: str, shell: str) -> None:
    if shell not in SHELLS:
        raise InputFault(f"{option} {shell}: must be {', '.join(SHELLS[:-1])} or {SHELLS[-1]}")


def _show(context: typer.Context, shell: str | None) -> None:
    if shell is None or context.resilient_parsing:
        return
    _known(SHOW, shell)
    print(_script(shell))
    raise typer.Exit


def _install(context: typer.Context, shell: str | None) -> None:
    if shell is None or context.resilient_parsing:
        return
    _known(INSTALL, shell)
    from gradwire.cli.completion_files import SCRIPTS, install

    if shell not in SCRIPTS:
        raise InputFault(
            f"{INSTALL} {shell}: only {shell} knows where its profile is; let it write there: "
            f"gradwire {SHOW} {shell} >> $PROFILE"
        )
    path = visible(str(install(shell, _script(shell))))
    print(f"completion for {shell}: {path}; it works in shells that are opened from now on")
    raise typer.Exit


def _script(shell: str) -> str:
    from typer._completion_shared import get_completion_script

    return get_completion_script(prog_name=NAME, complete_var=ASKED_BY, shell=shell)


def _shells(begun: str) -> list[str]:
    return [shell for shell in SHELLS if shell.startswith(begun)]


Installed = Annotated[
    str | None,
    typer.Option(
        INSTALL,
        metavar="SHELL",
        callback=_install,
        is_eager=True,
        autocompletion=_shells,
        help="complete commands in this shell, or in that of this name",
    ),
]
Shown = Annotated[
    str | None,
    typer.Option(
        SHOW,
        metavar="SHELL",
        callback=_show,
        is_eager=True,
        autocompletion=_shells,
        help="print what that would install",
    ),
]
