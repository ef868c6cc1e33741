"""Fitted models as files that run without this package: ONNX, or a program of `torch.export`."""

from redunet.export.contents import revealed
from redunet.export.exporting import Exported, export, over_vectors
from redunet.export.formats import FORMATS

__all__ = ["FORMATS", "Exported", "export", "over_vectors", "revealed"]
