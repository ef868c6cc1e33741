"""Ed25519 signatures of lines of a log, by the package `cryptography`."""

from __future__ import annotations

import base64
import os
from typing import Any

from redunet.errors import DataError, SettingsError
from redunet.safety.journal import Line, Sign, canonical
from redunet.safety.untrusted import open_regular, open_secret

_LONGEST_KEY = 2**16


def signer(path: str | os.PathLike[str]) -> Sign:
    """Make a function that signs, with the Ed25519 private key in a PEM file."""
    serialization, ed25519 = _cryptography()
    with open_secret(path, _LONGEST_KEY, "a private key") as file:
        data = file.read()
    try:
        key = serialization.load_pem_private_key(data, None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise DataError(
            f"expected an Ed25519 private key without a password, as PEM, in {os.fspath(path)}, "
            f"got something else: make one with openssl genpkey -algorithm ed25519"
        )
    public = key.public_key().public_bytes_raw()
    return lambda data: _beside(public, key.sign(data))


def public_key(path: str | os.PathLike[str]) -> str:
    """The public key of a PEM file that holds a public or a private one, as logs write it."""
    serialization, ed25519 = _cryptography()
    with open_regular(path, _LONGEST_KEY) as file:
        data = file.read()
    key: Any = None
    for load in (
        serialization.load_pem_public_key,
        lambda data: serialization.load_pem_private_key(data, None).public_key(),
    ):
        try:
            key = load(data)
            break
        except (ValueError, TypeError):
            continue
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise DataError(f"expected an Ed25519 key as PEM in {os.fspath(path)}, got something else")
    return _text(key.public_bytes_raw())


def signed_by(line: Line) -> str | None:
    """The public key that signed a line, after the check; None where it is not signed."""
    if not line.signed:
        return None
    _, ed25519 = _cryptography()
    number = line.body["number"] + 1
    try:
        public = line.signed["public_key"]
        key = ed25519.Ed25519PublicKey.from_public_bytes(base64.b64decode(public, validate=True))
        signature = base64.b64decode(line.signed["signature"], validate=True)
        if line.signed != _beside(key.public_bytes_raw(), signature):
            raise ValueError("another way to write the same bytes")
        key.verify(signature, canonical(line.body))
    except Exception as error:
        raise DataError(f"line {number} has a signature that is not valid") from error
    return public


def _beside(public: bytes, signature: bytes) -> dict[str, str]:
    """The fields added beside a line that is signed."""
    return {"public_key": _text(public), "signature": _text(signature)}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise SettingsError(
            "expected the package cryptography for signatures: pip install 'redunet[receipts]'"
        ) from None
    return serialization, ed25519
