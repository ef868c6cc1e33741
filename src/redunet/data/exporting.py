"""The command that exports a model: a file in, a file and what is known of it out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from redunet.data.matching import all_samples, open_all, without_name_warnings
from redunet.data.result import Result
from redunet.data.source import ReadOptions, Source
from redunet.estimators import Estimator, load
from redunet.export import export as write
from redunet.export import over_vectors, revealed
from redunet.export.formats import format_of
from redunet.progress import Progress, silent


def export(
    path: Path,
    out: Path,
    data: Sequence[Path],
    options: ReadOptions,
    *,
    layers: str,
    without_features: bool,
    file_format: str | None,
    device: str,
    memory: str,
    progress: Progress = silent,
) -> Result:
    """Export a model file, checked on data; see `redunet.export.export`.

    Parameters
    ----------
    path, out : Path
        Of the model, and of the file to write.
    data : sequence of Path
        Held in memory; where there are none, samples are made.
    options : ReadOptions
    layers, without_features, file_format
        As for `redunet.export.export`.
    device, memory : str
    progress : callable
    """
    format_of(out, file_format)
    model = load(path, device, memory)
    sources: list[Source] = []
    X = None
    if data:
        taking = over_vectors(model) if without_features else model
        sources = open_all(data, options, taking)
        X, _ = all_samples(taking, sources, progress, labels=False)
    with without_name_warnings():
        made = write(
            model,
            out,
            X,
            layers=layers,  # type: ignore[arg-type]
            without_features=without_features,
            file_format=file_format,
            progress=progress,
        )
    torch_file = format_of(out, file_format).suffix == ".pt2"
    found = {
        "model": str(path),
        "out": str(out),
        "bytes": made.bytes,
        "input_shape": list(made.input_shape),
        "outputs": ["index" if torch_file else "label", "scores", "probabilities"],
        "layers": made.layers,
        "of_layers": made.of_layers,
        "dtype": made.dtype,
        "samples": made.samples,
        "made": made.made,
        "differ": 0,
        "largest_difference": made.largest_difference,
        "holds": list(made.holds),
    }
    return Result.of(found, sources, _notes(model, made.made, made.layers))


def _notes(model: Estimator, made: str, layers: int) -> list[str]:
    notes = []
    if made:
        notes.append("labels were checked on samples that were made: give real ones with --samples")
    if model.encoder_ is not None:
        notes.append(f"the graph takes vectors of the encoder {model.encoder_}")
    if model.resize_images_:
        notes.append("the graph takes images of its input shape: it does not scale or crop them")
    what = revealed(model, layers)
    if what is not None:
        notes.append(
            f"the file holds no moments, but tells as much of each class's {what} as the model: "
            f"treat it as you treat the model"
        )
    return notes
