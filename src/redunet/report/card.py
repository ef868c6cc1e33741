"""A model card: what a model file holds, how it was made, what it reveals and how good it is.

It is a README.md as Hugging Face reads it: YAML between two lines of dashes, then Markdown.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from redunet._version import __version__
from redunet.adapters.runs import Record, read_record
from redunet.data.inspecting import held
from redunet.encoders.known import encoder_of
from redunet.errors import DataError
from redunet.estimators import Estimator, load
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
    results = [row for one in records for row in _results(read_record(one))]
    digest = file_sha256(path)
    parts = [
        _front_matter(title, model, results),
        f"# {_text(title)}",
        _about(model),
        _use(path.name),
        "## Classes",
        _classes(model),
        "## Settings",
        _table(["setting", "value"], [[f"`{k}`", _plain(v)] for k, v in _settings(model).items()]),
        "## Results",
        _results_table(results),
        "## What the file reveals",
        _list(_revealed(model)),
        "## Changing it",
        f"Classes and samples are withdrawn exactly, as if they had never been learnt: `redunet "
        f"forget {path.name} CLASS`, `redunet unlearn {path.name} DATA`. Then write a new card.",
        f"sha256 of the file: `{digest}`. Written by redunet {__version__}.",
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(title: str, model: Estimator, results: Sequence[Record]) -> str:
    """YAML, of which JSON is a part: whatever a name holds is quoted."""
    task = _task(model)
    entries: dict[str, Any] = {
        "library_name": "redunet",
        **({} if task is None else {"pipeline_tag": task}),
        "tags": [*dict.fromkeys(["redunet", model.name()]), "class-incremental learning"],
    }
    if results:
        index = [
            {
                "task": {"type": task or "classification"},
                "dataset": {"name": row["data"], "type": row["data"]},
                "metrics": [
                    {"type": "accuracy", "value": row["accuracy"], "name": row["what"]},
                ],
            }
            for row in results
        ]
        entries["model-index"] = [{"name": title, "results": index}]
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in entries.items()]
    return "\n".join(["---", *lines, "---"])


def _task(model: Estimator) -> str | None:
    """What Hugging Face calls the task; None where the encoder is not known here."""
    if model.encoder_ is not None:
        encoder = encoder_of(model.encoder_)
        return None if encoder is None else _TASKS[encoder.takes]
    features = model.feature_map_
    images = features is not None and len(features.input_shape) > 1
    return _TASKS["images" if images else "vectors"]


def _about(model: Estimator) -> str:
    counts, own = model.class_counts_, sum(model.self_labelled_counts_.values())
    samples = f"{sum(counts.values()):,} samples"
    itself = f", and {own:,} that it labelled itself" if own else ""
    before = f" of the encoder {_text(str(model.encoder_))}" if model.encoder_ else ""
    return (
        f"A classifier of {len(counts):,} classes, learnt from {samples}{itself}: a "
        f"`{type(model).__name__}` over {model.n_features_out_:,} features, from "
        f"{model.n_features_in_:,} values{before}. It is computed in closed form from the count, "
        f"the sum and the second moment of each class, so that the order in which classes and "
        f"samples came makes no difference."
    )


def _use(file: str) -> str:
    return (
        f"```sh\npip install redunet\nredunet predict {file} DATA\n```\n\n"
        f"```python\nfrom redunet.estimators import load\n\n"
        f"model = load({file!r})\nlabels = model.predict(X)\n```"
    )


def _classes(model: Estimator) -> str:
    counts, own = model.class_counts_, model.self_labelled_counts_
    listed = sorted(counts, key=lambda label: -counts[label])[:MOST_CLASSES]
    chosen = set(listed)
    rows = [
        [_text(str(label)), f"{n:,}", *([f"{own.get(label, 0):,}"] if own else [])]
        for label, n in counts.items()
        if label in chosen
    ]
    headings = ["class", "samples", *(["labelled by the model itself"] if own else [])]
    rest = len(counts) - len(rows)
    more = f"\n\nand {rest:,} classes more, of fewer samples." if rest else ""
    return _table(headings, rows) + more


def _settings(model: Estimator) -> dict[str, Any]:
    features = model.feature_map_
    return {
        "estimator": model.name(),
        **model.own_settings(),
        "normalize": model.normalize,
        "input_range": model.input_range,
        "features": None if features is None else features.kind,
        "encoder": None if model.encoder_ is None else str(model.encoder_),
    }


def _revealed(model: Estimator) -> list[str]:
    counts, d = model.class_counts_, model.n_features_out_
    few = [label for label, n in counts.items() if n < d]
    said = [
        "No samples are in the file, but it is not anonymous: it holds the number, the sum and the "
        "second moment of the samples of each class, exactly. Treat it as you would treat "
        "statistics of the data."
    ]
    if few:
        names = ", ".join(_text(str(label)) for label in few[:10]) + ", …" * (len(few) > 10)
        said.append(
            f"{len(few):,} of {len(counts):,} classes have fewer samples than features ({names}): "
            f"their moments come close to the samples themselves."
        )
    if hasattr(model, "feature_names_in_"):
        said.append("The names of the columns are in the file, as are those of the classes.")
    else:
        said.append("The names of the classes are in the file.")
    return [*said, *(f"{line[0].upper()}{line[1:]}." for line in held(model))]


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


def _results_table(results: Sequence[Record]) -> str:
    if not results:
        return "None were given. `redunet card MODEL --record RECORD` states those of a record."
    rows = [
        [
            _text(row["data"]),
            _text(row["what"]),
            f"{row['accuracy']:.4f}",
            "" if row["samples"] is None else f"{row['samples']:,}",
        ]
        for row in results
    ]
    return _table(["data", "what", "accuracy", "test samples"], rows)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _list(items: Sequence[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _plain(value: Any) -> str:
    return "" if value is None else _text(str(value))


def _text(text: str) -> str:
    """Text from outside as Markdown that says it and does nothing else."""
    safe = html.escape(shown(text), quote=False)
    for sign in "\\`*_[]|#!":
        safe = safe.replace(sign, "\\" + sign)
    return safe
