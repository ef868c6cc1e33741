"""Commands that look inside a model file: inspect and verify."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from redunet.core.covariance import class_means
from redunet.core.moments import ClassMoments
from redunet.core.second_moments import SecondMoments
from redunet.core.subspaces import Subspaces
from redunet.data.result import Result
from redunet.data.source import listed
from redunet.estimators import ClosedForm, Estimator, ReduNetClassifier, load, storage
from redunet.estimators.settings import Settings
from redunet.features import FeatureMap, held_of_data
from redunet.safety.untrusted import file_sha256

Found = dict[str, Any]

MOST_COMPARED = 50
"""Classes that `inspect` compares with each other: the pairs of many would take hours."""


def verify(path: Path) -> Result:
    """Check a model file from its first byte to its last; anything wrong is an error."""
    model = load(path)
    return Result.of(
        {
            "model": str(path),
            "estimator": model.name(),
            "intact": True,
            "format": storage.version(path),
            "classes": len(model.classes_),
            "samples": sum(model.class_counts_.values()),
            "self_labelled": sum(model.self_labelled_counts_.values()),
            "features": model.moments_.n_features,
            "sha256": file_sha256(path),
        }
    )


def inspect(path: Path, device: str, memory: str) -> Result:
    """Show what a model holds, and what its network does.

    Parameters
    ----------
    path : Path
    device, memory : str

    Returns
    -------
    Result
        Of a network, ``delta_R`` has the objective before each layer, and
        ``closeness`` the angles between the subspaces of each two classes that
        are ``compared``, in degrees and in that order, on the input and after the
        last layer; see `redunet.core.subspaces.Subspaces`. Of any other
        estimator, ``distances`` has those between the means. At most 50 classes are
        compared, those with the most samples, as there are many pairs.
    """
    model = load(path, device, memory)
    counts, d = model.class_counts_, model.n_features_out_
    few = [label for label, n in counts.items() if n < d]
    sizes = list(counts.values())
    largest = sorted(range(len(counts)), key=lambda index: -sizes[index])
    compared, own = sorted(largest[:MOST_COMPARED]), model.self_labelled_counts_
    names, features = getattr(model, "feature_names_in_", None), model.feature_map_
    found = {
        "model": str(path),
        "estimator": model.name(),
        "bytes": path.stat().st_size,
        "classes": [
            {
                "class": label,
                "samples": n,
                "self_labelled": own.get(label, 0),
                "fewer_than_features": n < d,
            }
            for label, n in counts.items()
        ],
        "samples": sum(sizes),
        "self_labelled": sum(own.values()),
        "features": d,
        "inputs": model.n_features_in_,
        "columns": None if names is None else names.tolist(),
        "encoder": None if model.encoder_ is None else model.encoder_.to_dict(),
        "settings": model.summary()["settings"],
        "feature_map": None if features is None else _of_features(features),
        "compared": [list(counts)[index] for index in compared],
        **(
            _of_means(model.moments_, compared)
            if isinstance(model, ClosedForm)
            else _of_network(model, compared)
        ),
    }
    return Result.of(found, (), _notes(model, few, len(compared)))


def _of_features(features: FeatureMap) -> Found:
    return {
        "kind": features.kind,
        "input_shape": list(features.input_shape),
        "learnt_from_data": features.learnt_from_data,
        "values": features.to_state()[0],
    }


def _of_means(moments: ClassMoments, compared: list[int]) -> Found:
    means = class_means(moments)[compared]
    return {"distances": torch.cdist(means, means).tolist()}


def _of_network(model: ReduNetClassifier, compared: list[int]) -> Found:
    network, r = model.network_, Settings.of(model).components(model.n_features_out_)
    layers = network.layers
    rates = network.rates()
    return {
        "R": [rate.R for rate in rates],
        "R_c": [rate.R_c for rate in rates],
        "delta_R": [rate.delta_R for rate in rates],
        "closeness": {
            "components": r,
            "input": _angles(layers.first, compared, r),
            "last": _angles(layers.last, compared, r),
        },
    }


def _angles(moments: SecondMoments, compared: list[int], r: int) -> Found:
    spaces = Subspaces.of(moments, r, r, compared)
    every = range(len(compared))
    smallest = [[float(spaces.angles(i, j)[0]) if i != j else 0.0 for j in every] for i in every]
    return {"smallest": smallest, "mean": spaces.closeness().tolist()}


def _notes(model: Estimator, few: list[Any], n_compared: int) -> list[str]:
    notes = []
    own = sum(model.self_labelled_counts_.values())
    if own:
        notes.append(
            f"{own:,} samples more were labelled by the model itself, "
            f"and are kept apart: `redunet forget MODEL --unlabelled` withdraws them"
        )
    if n_compared < len(model.classes_):
        notes.append(
            f"{n_compared} of {len(model.classes_):,} classes are compared with each other, those "
            f"with the most samples"
        )
    if few:
        notes.append(
            f"{len(few)} of {len(model.classes_)} classes have fewer samples than features "
            f"({listed([repr(label) for label in few])}): their moments come close to the samples "
            f"themselves"
        )
    return [*notes, *held(model)]


def held(model: Estimator) -> list[str]:
    """A line about what a model holds of the data that its feature map was learnt from."""
    what = held_of_data(model.features)
    if what is None:
        return []
    return [
        f"the feature map was learnt from data: what it holds of that data ({what}) stays when "
        f"classes or samples are withdrawn"
    ]
