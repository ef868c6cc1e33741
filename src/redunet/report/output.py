"""Stub until the report is merged."""

from redunet.estimators import storage
import json


def write(record, folder):
    storage.make_folder(folder)
    storage.write_bytes(
        folder / "record.json", json.dumps(record, indent=1, allow_nan=False).encode()
    )


def terminal(record):
    return [record["what"]]
