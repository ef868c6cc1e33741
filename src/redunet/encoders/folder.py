"""Reading folders in Hugging Face layout: configuration as JSON, weights as safetensors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redunet.encoders.base import missing
from redunet.errors import DataError, ReduNetError
from redunet.safety.untrusted import open_regular

_LONGEST_JSON = 2**24


def sha256_of(*paths: Path) -> str:
    """The sha256 of files one after another, in hexadecimal."""
    digest = hashlib.sha256()
    for path in paths:
        with open_regular(path) as file:
            while block := file.read(2**20):
                digest.update(block)
    return digest.hexdigest()


def weight_files(folder: Path) -> list[Path]:
    """The file of weights, or several that belong together, in order."""
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise DataError(
            f"expected weights in {folder / 'model.safetensors'}, got none: name a folder in "
            f"Hugging Face layout, with weights as safetensors"
        )
    return files


def read_json(path: Path, needed: bool = True) -> dict[str, Any]:
    """An object in a JSON file; an empty one where there is no file and none is needed."""
    if not needed and not path.exists():
        return {}
    with open_regular(path, _LONGEST_JSON) as file:
        try:
            found = json.loads(file.read())
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path} is not JSON, or is damaged: {error}") from error
    if not isinstance(found, dict):
        raise DataError(f"expected a JSON object in {path}, got {type(found).__name__}")
    return found


@contextmanager
def loading(folder: Path) -> Iterator[Any]:
    """The library `transformers`, silent; what goes wrong in it is one line about the folder."""
    try:
        import transformers
    except ImportError as error:
        raise missing(str(folder.name), "text", error.name) from error
    logging = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield transformers
    except (ReduNetError, MemoryError):
        raise
    except Exception as error:  # the library fails in as many ways as there are folders
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"{folder} is no encoder that can be loaded: {why}") from error
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
