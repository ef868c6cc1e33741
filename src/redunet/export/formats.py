"""The two kinds of file: written to bytes, and run from bytes as anybody would run them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from redunet.core.moments import Label
from redunet.errors import SettingsError
from redunet.export.program import Program

MOST_BYTES = 2**31 - 2**20
"""Of an ONNX file; beyond it weights would have to lie in files of their own."""

Run = Callable[[NDArray[np.float64]], tuple[list[Label], NDArray[np.float64]]]
"""From samples, (n, ...), to labels and scores, (n, k)."""


@dataclass(frozen=True)
class FileFormat:
    """A kind of file: how programs are written to it and run from it."""

    suffix: str
    written: Callable[[Program, tuple[int, ...], Sequence[Label], dict[str, str]], bytes]
    running: Callable[[bytes], Run]


def _onnx_written(
    program: Program, shape: tuple[int, ...], labels: Sequence[Label], about: dict[str, str]
) -> bytes:
    size = sum(buffer.nbytes for buffer in program.buffers())
    if size > MOST_BYTES:
        raise SettingsError(
            f"expected a network of at most 2 GB for an ONNX file, got {size / 1e9:.1f} GB: "
            f"write a .pt2 file instead"
        )
    try:
        from redunet.export.onnx_graph import onnx_model
    except ImportError as error:
        raise _missing(error) from error
    data: bytes = onnx_model(program, shape, labels, about).SerializeToString(deterministic=True)
    return data


def _onnx_running(data: bytes) -> Run:
    try:
        import onnxruntime
    except ImportError as error:
        raise _missing(error) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors alone
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    def run(X: NDArray[np.float64]) -> tuple[list[Label], NDArray[np.float64]]:
        labels, scores = session.run(["label", "scores"], {"samples": X})
        return labels.tolist(), scores

    return run


def _torch_written(
    program: Program, shape: tuple[int, ...], labels: Sequence[Label], about: dict[str, str]
) -> bytes:
    # PyTorch warns of views, and may write all that they are views of.
    views = {
        name: buffer.clone(memory_format=torch.contiguous_format)
        for name, buffer in program.state_dict().items()
        if not buffer.is_contiguous() or buffer.untyped_storage().nbytes() != buffer.nbytes
    }
    program.load_state_dict(views, strict=False, assign=True)
    samples = torch.rand(2, *shape, dtype=torch.float64)
    exported = torch.export.export(
        program, (samples,), dynamic_shapes=({0: torch.export.Dim("n", min=1)},), strict=False
    )
    for module in exported.graph_module.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            node.meta.pop("stack_trace", None)  # the names of source files on this machine
    buffer = io.BytesIO()
    facts = {"labels.json": json.dumps(list(labels)), "about.json": json.dumps(about)}
    torch.export.save(exported, buffer, extra_files=facts)
    return buffer.getvalue()


def _torch_running(data: bytes) -> Run:
    facts = {"labels.json": ""}
    program = torch.export.load(io.BytesIO(data), extra_files=facts).module()
    labels = json.loads(facts["labels.json"])

    def run(X: NDArray[np.float64]) -> tuple[list[Label], NDArray[np.float64]]:
        with torch.no_grad():
            index, scores, _ = program(torch.from_numpy(X))
        return [labels[place] for place in index.tolist()], scores.numpy()

    return run


def _missing(error: ImportError) -> SettingsError:
    return SettingsError(
        f"expected the package {error.name}, which ONNX files need, but it is not installed: "
        f"pip install 'redunet[export]', or write a .pt2 file"
    )


FORMATS = {
    "onnx": FileFormat(".onnx", _onnx_written, _onnx_running),
    "torch": FileFormat(".pt2", _torch_written, _torch_running),
}
"""Formats by the names that ``--format`` takes."""


def format_of(path: Path, name: str | None) -> FileFormat:
    """The format of a name, or of a file's suffix where none is given."""
    if name is not None:
        if name not in FORMATS:
            raise SettingsError(f"expected a format among {', '.join(FORMATS)}, got {name!r}")
        return FORMATS[name]
    for one in FORMATS.values():
        if path.suffix.lower() == one.suffix:
            return one
    raise SettingsError(
        f"expected a file that ends in .onnx or .pt2, got {path}: rename it, or say --format"
    )
