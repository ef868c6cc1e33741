"""A model as a page: tables and figures; records too, where the lab is installed."""

from redunet.report.output import page

__all__ = ["page"]
