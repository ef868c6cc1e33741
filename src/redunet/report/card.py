"""A model card: what a model file holds, how it was made, what it reveals and how good it is.

It is a README.md as Hugging Face reads it: YAML between two lines of dashes, then Markdown.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from redunet._version import __version__
from redunet.data.inspecting import held
from redunet.encoders.known import encoder_of
from redunet.errors import DataError
from redunet.estimators import Estimator, load
from redunet.report.output import Record, read_record
from redunet.safety.untrusted import file_sha256
from redunet.text import shown

_TASKS = {
    "texts": "text-classification",
    "images": "image-classification",
    "vectors": "tabular-classification",
}

MOST_CLASSES = 100
"""Classes that are listed; of more, those with the most samples."""


def card(
    path: str | os.PathLike[str],
    records: Sequence[Record | str | os.PathLike[str]] = (),
    name: str | None = None,
) -> str:
    """The card of a model file.

    Parameters
    ----------
    path : path of the model file
    records : sequence of mappings or paths, default=()
        Results to state: records of experiments, or what ``redunet evaluate --json`` printed.
    name : str, default=the file's name without its suffix
        What the model is called.

    Returns
    -------
    str
        Markdown, with YAML at its top.
    """
    path = Path(path)
    model = load(path)
    title = shown(name or path.stem)
    results = [row for one in records for row in _results(_given(one))]
    counts, d = model.class_counts_, model.n_features_out_
    most = set(sorted(counts, key=lambda label: -counts[label])[:MOST_CLASSES])
    templates = Environment(
        loader=PackageLoader("redunet.report", "assets"),
        autoescape=False,  # noqa: S701 - Markdown; words from outside go through `_words`
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # YAML, of which JSON is a part: whatever a name holds is quoted.
    templates.filters |= {"words": _words, "json": lambda v: json.dumps(v, ensure_ascii=False)}
    return templates.get_template("card.md").render(
        front_matter=_front_matter(title, model, results),
        title=title,
        model=model,
        type=type(model).__name__,
        counts=counts,
        own=model.self_labelled_counts_,
        listed=[label for label in counts if label in most],
        settings=_settings(model),
        results=results,
        few=[label for label, n in counts.items() if n < d],
        named=hasattr(model, "feature_names_in_"),
        held=held(model),
        file=path.name,
        digest=file_sha256(path),
        version=__version__,
    )


def _given(record: Record | str | os.PathLike[str]) -> Record:
    return record if isinstance(record, Mapping) else read_record(Path(record))


def _front_matter(title: str, model: Estimator, results: Sequence[Record]) -> dict[str, Any]:
    task = _task(model)
    index = [
        {
            "task": {"type": task or "classification"},
            "dataset": {"name": row["data"], "type": row["data"]},
            "metrics": [{"type": "accuracy", "value": row["accuracy"], "name": row["what"]}],
        }
        for row in results
    ]
    return {
        "library_name": "redunet",
        **({} if task is None else {"pipeline_tag": task}),
        "tags": [*dict.fromkeys(["redunet", model.name()]), "class-incremental learning"],
        **({"model-index": [{"name": title, "results": index}]} if results else {}),
    }


def _task(model: Estimator) -> str | None:
    """The task, as Hugging Face calls it; None where the encoder is not known here."""
    if model.encoder_ is not None:
        encoder = encoder_of(model.encoder_)
        return None if encoder is None else _TASKS[encoder.takes]
    features = model.feature_map_
    images = features is not None and len(features.input_shape) > 1
    return _TASKS["images" if images else "vectors"]


def _settings(model: Estimator) -> dict[str, Any]:
    features = model.feature_map_
    return {
        "estimator": model.name(),
        **model.own_settings(),
        "normalize": model.normalize,
        "input_range": model.input_range,
        "features": None if features is None else features.kind,
        "encoder": model.encoder_,
    }


def _results(record: Record) -> list[dict[str, Any]]:
    """The accuracies in a record: of an experiment's methods, or of an evaluation."""
    if record.get("kind") == "experiment":
        title = str(record.get("title") or record.get("data"))
        return [
            {
                "what": f"{method['name']}, all classes after {len(record['stream'])} tasks",
                "data": title,
                "accuracy": sum(last) / len(last),
                "samples": record["stream"][-1].get("test_samples"),
            }
            for method in record["methods"]
            if (last := [run["summary"]["last"] for run in method["runs"]])
        ]
    if "accuracy" in record and "confusion" in record:
        return [
            {
                "what": "redunet evaluate",
                "data": "data of one's own",
                "accuracy": record["accuracy"],
                "samples": record.get("samples"),
            }
        ]
    raise DataError(
        "expected the record of an experiment, or what `redunet evaluate --json` prints, got "
        "something else: pass record.json, or save that output"
    )


def _words(text: str) -> str:
    """Text from outside as Markdown that says it and does nothing else."""
    safe = html.escape(shown(text), quote=False)
    for sign in "\\`*_[]|#!":
        safe = safe.replace(sign, "\\" + sign)
    return safe
