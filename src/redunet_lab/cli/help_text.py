"""The help of commands that take settings."""

from __future__ import annotations

from typing import Any

from redunet.cli.help_text import Command


class WithSettings(Command):
    """A command whose help lists the settings, read from where they are declared."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        if self.help and "SETTINGS" in self.help:
            from redunet_lab.experiment import settings_help

            self.help = self.help.replace("SETTINGS", settings_help())
        super().format_help(ctx, formatter)
