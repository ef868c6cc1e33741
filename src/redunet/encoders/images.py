"""Encoders of images: EfficientNet-Lite, and networks in Hugging Face layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from redunet.encoders.base import Network
from redunet.encoders.folder import loading, read_json
from redunet.errors import DataError

_BORDER = 32
"""Pixels by which images are larger than what is cut out of their middle."""


def lite_shape(name: str) -> tuple[int, int, int]:
    """The shape of images that an EfficientNet-Lite takes."""
    side = {"efficientnet-lite0": 224, "efficientnet-lite2": 260}[name] + _BORDER
    return side, side, 3


def load_lite_network(name: str, weights: Path, device: str) -> Network:
    """An EfficientNet-Lite; a vector is the mean over places of the last convolution."""
    from efficientnet_lite_pytorch import EfficientNet

    model = EfficientNet.from_name(name)
    model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    model = model.eval().to(device)
    side = lite_shape(name)[0] - _BORDER

    def batch(images: Tensor) -> Tensor:
        found: Tensor = model.extract_features(images).mean(dim=(2, 3))
        return found

    # TensorFlow's constants for these networks.
    return _network(lambda image: _prepared(image, side, [127.0] * 3, [128.0] * 3), batch)


def folder_shape(folder: Path) -> tuple[int, int, int]:
    """The shape of images that the network of a folder takes, before they are cropped."""
    resize, crop = _sizes(folder)
    side = max(resize, crop)
    return side, side, 3


def load_folder_network(folder: Path, device: str) -> Network:
    """The network of a folder: the first token, or the mean over places of a convolution."""
    said = _preprocessing(folder)
    with loading(folder) as transformers:
        model = transformers.AutoModel.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, dtype=torch.float32
        )
    model = model.eval().to(device)
    _, crop = _sizes(folder)
    mean = [255.0 * value for value in said.get("image_mean", [0.5] * 3)]
    deviation = [255.0 * value for value in said.get("image_std", [0.5] * 3)]

    def batch(images: Tensor) -> Tensor:
        hidden: Tensor = model(pixel_values=images).last_hidden_state
        return hidden.mean(dim=(2, 3)) if hidden.ndim == 4 else hidden[:, 0]

    return _network(lambda image: _prepared(image, crop, mean, deviation), batch)


def _network(prepare: Callable[[Any], Tensor], batch: Callable[[Tensor], Tensor]) -> Network:
    """A network of images, one at a time or several."""
    return Network(prepare, lambda image: batch(image)[0], batch)


def _prepared(
    image: NDArray[np.uint8], side: int, mean: list[float], deviation: list[float]
) -> Tensor:
    """The middle of an image, (height, width, 3), shifted and scaled: (1, 3, side, side)."""
    top, left = ((length - side) // 2 for length in image.shape[:2])
    pixels = torch.tensor(image[top : top + side, left : left + side]).permute(2, 0, 1)
    shift, scale = (torch.tensor(values)[:, None, None] for values in (mean, deviation))
    return ((pixels.to(torch.float32) - shift) / scale)[None]


def _preprocessing(folder: Path) -> dict[str, Any]:
    return read_json(folder / "preprocessor_config.json")


def _sizes(folder: Path) -> tuple[int, int]:
    """The side that images are scaled to, and that of the square which is cut out of them."""
    said = _preprocessing(folder)
    resize = _side(said.get("size", 224), folder)
    cropped = said.get("do_center_crop", "crop_size" in said)
    return resize, _side(said["crop_size"], folder) if cropped and "crop_size" in said else resize


def _side(size: Any, folder: Path) -> int:
    if isinstance(size, dict):
        size = size.get("shortest_edge", size.get("height"))
    if type(size) is not int or not 0 < size <= 4096:
        raise DataError(
            f"expected a size of images in {folder / 'preprocessor_config.json'}, got {size!r}"
        )
    return size
