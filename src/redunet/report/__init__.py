"""One record in; tables, figures and a page out. Nothing is computed here that it does not hold."""

from redunet.report.output import page, terminal, write

__all__ = ["page", "terminal", "write"]
