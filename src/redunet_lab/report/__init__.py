"""Reports of records: sections, figures, tables of README and docs."""

from redunet_lab.report.output import write

__all__ = ["write"]
