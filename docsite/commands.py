"""The page of commands, made of the commands themselves when the site is built."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click
from typer.main import get_command

from redunet.cli.app import main

_HEAD = """\
# Commands

All commands of `redunet`, with their arguments and options; `redunet COMMAND --help` prints the
same.
"""


def page() -> str:
    """The whole page."""
    group = get_command(main)
    assert isinstance(group, click.Group)
    panels: dict[str, list[tuple[str, click.Command]]] = {}
    for name, command in group.commands.items():
        if command.hidden:  # told of in the help of another command
            continue
        panels.setdefault(str(getattr(command, "rich_help_panel", "")), []).append((name, command))
    parts = [_HEAD]
    for panel, commands in panels.items():
        parts += ["| " + panel.lower() + " | |\n| --- | --- |\n" + _contents(commands)]
    parts += [_plain(group.epilog or "") + "\n"]
    for commands in panels.values():
        for name, command in commands:
            parts += list(_sections(f"redunet {name}", command, 2))
            if on_data := group.commands.get(f"{name}-data"):
                parts += list(_sections(f"redunet {name} --data NAME", on_data, 2))
    return "\n".join(parts)


def _contents(commands: list[tuple[str, click.Command]]) -> str:
    return "".join(
        f"| [`{name}`](#redunet-{name}) | {_cell(command.get_short_help_str(200))} |\n"
        for name, command in commands
    )


def _sections(name: str, command: click.Command, level: int) -> Iterator[str]:
    yield f"{'#' * level} {name}\n"
    usage = " ".join(command.collect_usage_pieces(click.Context(command, info_name=name)))
    yield f"```text\n{name} {usage}\n```\n"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield _paragraph(paragraph)
    rows = [row for parameter in command.params if (row := _row(parameter))]
    if rows:
        yield "| | | default |\n| --- | --- | --- |\n" + "".join(rows)
    for below, one in getattr(command, "commands", {}).items():
        yield from _sections(f"{name} {below}", one, level + 1)


def _paragraph(text: str) -> str:
    if text.startswith(" "):  # examples
        return f"```text\n{inspect.cleandoc(text)}\n```\n"
    return _plain(text).replace("Example:", "For example:") + "\n"


def _row(parameter: click.Parameter) -> str:
    if parameter.name in ("help", "install_completion", "show_completion"):
        return ""
    names = (
        [parameter.make_metavar(click.Context(click.Command(""))).replace("|", " or ")]
        if isinstance(parameter, click.Argument)
        else [*parameter.opts, *parameter.secondary_opts]
    )
    said = ", ".join(f"`{name}`" for name in names)
    flag = getattr(parameter, "is_flag", False) or getattr(parameter, "count", False)
    if isinstance(parameter, click.Option) and not flag:
        metavar = parameter.metavar or parameter.type.name.upper()
        said += f" `{metavar.replace('|', ' or ')}`" if len(metavar) < 30 else ""
    default = parameter.default
    shown = "" if default in (None, False, "", (), []) or flag else f"`{_cell(str(default))}`"
    if parameter.required:
        shown = "required"
    return f"| {said} | {_cell(parameter.help or '')} | {shown} |\n"  # type: ignore[attr-defined]


def _plain(text: str) -> str:
    return " ".join(text.replace("\b", "").split())


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|").replace("<", "&lt;")
