"""The end of a command: an exit code, and one line when something was wrong."""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from redunet.cli.help_text import verbatim_examples
from redunet.cli.printing import note
from redunet.errors import GroupError, ReduNetError, is_out_of_memory
from redunet.safety import interrupts

EXIT_CODES = (
    "Exit codes: 0, done; 1, stopped before the end, by Ctrl-C, out of memory, or because the "
    "output could not be written, and the line on standard error says whether a model file was "
    "changed; 2, something given could not be used, one line says what, and nothing was changed."
)

# Typer brings Click along in some versions, and imports it in others.
_UsageError: Any = typer.BadParameter.__mro__[1]

_OF_THE_PLACE = {
    errno.EACCES,
    errno.EDQUOT,
    errno.EIO,
    errno.ELOOP,
    errno.EMFILE,
    errno.ENAMETOOLONG,
    errno.ENOSPC,
    errno.EPERM,
    errno.EROFS,
}

_OF_OUTPUT = {errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EDQUOT}


class _StoppedError(Exception):
    """Ctrl-C, under a name that Typer leaves alone."""


class OneLineErrors(TyperGroup):
    """A user's mistake is one line and exit code 2; an interruption one line and exit code 1."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command that the words ask for; give its exit code, or end the process.

        Commands find what was typed as their context's ``obj``, for records.
        """
        interrupts.reset()
        failure: BaseException | None = None
        code = 0
        try:
            words = sys.argv[1:] if args is None else args
            typed = shlex.join(["redunet", *words])
            code = super().main(words, "redunet", complete_var, False, obj=typed, **extra) or 0
            sys.stdout.flush()
        except BaseException as error:  # noqa: BLE001 - raised again where it is unforeseen
            failure = error
        interrupts.ignore()
        if failure is not None or interrupts.heard():
            code = _exit_code(failure)
        if standalone_mode:
            sys.exit(code)
        return code

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the help, its examples as they are."""
        written, self.help = self.help, verbatim_examples(self.help or "")
        super().format_help_text(ctx, formatter)
        self.help = written

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        """The command that the words ask for."""
        name, command, rest = super().resolve_command(ctx, args)
        # Another command of that name has the options that this one lacks.
        on_data = self.get_command(ctx, f"{name}-data")
        if command is not None and on_data is not None:
            known = {option for one in command.params for option in one.opts}
            its = {option for one in on_data.params for option in one.opts}
            if {word.partition("=")[0] for word in rest} & (its - known):
                command = on_data
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command of a context."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise _StoppedError(interrupts.message(stop)) from None


def _exit_code(error: BaseException | None) -> int:
    """Say in one line what went wrong; what nobody foresaw is raised again."""
    if isinstance(error, _StoppedError):
        note(str(error))
        return 1
    if error is None or isinstance(error, KeyboardInterrupt) or interrupts.heard():
        note(interrupts.message())
        return 1
    if isinstance(error, GroupError):
        note(f"{error}; {interrupts.state()}")
        return 1
    if isinstance(error, ReduNetError):
        note(str(error))
        return 2
    if isinstance(error, _UsageError):
        return _usage(error)
    if is_out_of_memory(error):
        note(f"out of memory; {interrupts.state()}")
        return 1
    if isinstance(error, SystemExit):  # Typer's, where nobody reads what is printed
        return 1
    if isinstance(error, OSError) and error.filename is None and error.errno in _OF_OUTPUT:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that the end of the process is quiet
        if error.errno != errno.EPIPE:
            note(f"cannot write to standard output: {error.strerror}; {interrupts.state()}")
        return 1
    if isinstance(error, OSError) and error.filename is not None and error.errno in _OF_THE_PLACE:
        note(f"cannot use {error.filename}: {error.strerror}")
        return 2
    raise error


def _usage(error: Any) -> int:
    """A mistake in the words of the command; without any words, the help."""
    command = error.ctx.command_path if error.ctx else "redunet"
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.format_message())
        return 0
    said = " ".join(error.format_message().split()).rstrip(".")
    said = re.sub(r"\.? \(?Did you mean (?:one of: )?(.*?\?).*", r": did you mean \1", said)
    see = " See" if said.endswith("?") else "; see"
    note(f"{said[:1].lower()}{said[1:]}{see} {command} --help")
    return 2
