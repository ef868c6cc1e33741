"""The filters of a feature map as pictures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from redunet.features import FeatureMap, PatchFilters
from redunet.report.blocks import Figure, Images, View

MOST_FILTERS = 96
"""Of each size that are drawn."""

MOST_IN_A_ROW = 16


def filter_figure(features: FeatureMap | None) -> list[Figure]:
    """The filters of a feature map that has some made of patches; nothing where it has none."""
    found = [
        one
        for one in ([] if features is None else _with_filters(features))
        if len(one.input_shape) == 2 or one.input_shape[2] == 3  # not of responses
    ]
    if not found:
        return []
    caption = "Weights of the filters that each patch of an image is multiplied by, each scaled so "
    caption += "that its largest is 1 in size; "
    colour = len(found[0].input_shape) == 3
    caption += "grey is zero." if colour else "blue and red are opposite signs."
    if any(isinstance(one, PatchFilters) for one in found):
        caption += " They are whitened patches of images of the first task."
    else:
        caption += " They are patches of images of the first task, of mean 0."
    most = max(len(one.filters) for one in found)
    if most > MOST_FILTERS:
        caption += f" The first {MOST_FILTERS} of {most:,} of each size."
    views = list(map(_view, found))
    return [Figure("filters", "Filters of the feature map", caption, views, choose="filters")]


def _with_filters(features: FeatureMap) -> Iterator[Any]:
    """The maps with filters that a feature map is made of."""
    if hasattr(features, "filters"):
        yield features
    for part in getattr(features, "parts", ()):
        yield from _with_filters(part)


def _view(features: Any) -> View:
    size = features.patch_size
    filters = features.filters[:MOST_FILTERS].to("cpu", torch.float64)
    columns = min(MOST_IN_A_ROW, len(filters))
    count = len(filters) // columns * columns  # rows that are full
    filters = filters[:count]
    # Values of one channel come one after another.
    tiles = filters.reshape(count, -1, size, size).permute(0, 2, 3, 1)
    scaled = tiles / tiles.abs().amax(dim=(1, 2, 3), keepdim=True).clamp(min=1e-300)
    if scaled.shape[3] == 1:
        scaled = scaled[..., 0]
    lengths = filters.norm(dim=1) / filters.norm(dim=1).mean()
    starts = range(0, count, columns)
    images = Images(
        [scaled[start : start + columns].tolist() for start in starts],
        rows=("from filter", [str(start + 1) for start in starts]),
        columns=("filter", [f"+{index}" for index in range(columns)]),
        what="length of the filter, as a multiple of the mean",
        figures=[[f"{one:.2f}" for one in lengths[start : start + columns]] for start in starts],
        named=False,
    )
    alt = f"{count} filters of {size} × {size} pixels as small pictures, in rows of {columns}."
    return View(f"{size} × {size} pixels", alt, images)
