"""Sums that are exact, and of which nobody sees the terms: masked integers modulo 2⁶⁴.

The protocol of Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine
Learning" (CCS 2017), for a server that follows it. Client i adds to its vector x of integers

    y_i = x_i + PRG(b_i) + Σ_{j > i} PRG(s_ij) − Σ_{j < i} PRG(s_ij)   modulo 2⁶⁴,

where s_ij is a key that i and j have agreed on, and b_i one of its own. In the sum of all y the
keys of pairs cancel. Shares of b_i, and of the private key behind all s_ij, lie with the other
clients, encrypted. Once it is known who has sent y, they give the server shares of b_i for those
who have, and of the private key for those who have not: never both of one client.

Keys, shares and their encryption are Flower's, which are those of `cryptography` and PyCryptodome.
Flower's generator of masks is not used: it reduces a key to 32 bits and gives them to a generator
that is not made for secrets (flwrlabs/flower, issue 7522). PRG here is AES-256 in counter mode.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping, Sequence
from statistics import mode
from typing import Any

import numpy as np
import torch
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.fernet import InvalidToken
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from flwr.common.secure_aggregation.crypto.shamir import combine_shares, create_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import (
    decrypt,
    encrypt,
    generate_shared_key,
)
from flwr.supercore.primitives.asymmetric import (
    bytes_to_private_key,
    bytes_to_public_key,
    generate_key_pairs,
    private_key_to_bytes,
    public_key_to_bytes,
)
from numpy.typing import NDArray

from redunet.core.moments import ClassMoments, Label
from redunet.errors import DataError

Vector = NDArray[np.uint64]

KEY_BYTES = 32

LARGEST = 2**31
"""Bytes of a vector: Flower sends no larger message, as gRPC and its Protocol Buffers do not."""

_CURVE = "secp384r1"
"""That of Flower's keys."""


def threshold(n_clients: int) -> int:
    """The number of clients that together can undo a mask: more than half of all."""
    return n_clients // 2 + 1


def key_pair() -> tuple[bytes, bytes]:
    """A private and a public key, as bytes."""
    private, public = generate_key_pairs()
    return private_key_to_bytes(private), public_key_to_bytes(public)


def checked_public(key: Any) -> bytes:
    """A public key that came from elsewhere; a DataError unless `key_pair` makes such."""
    try:
        public: Any = bytes_to_public_key(key)
        intact = public.curve.name == _CURVE and public_key_to_bytes(public) == key
    except (AttributeError, TypeError, ValueError, UnsupportedAlgorithm) as error:
        raise DataError("expected a public key, got something else") from error
    if not intact:
        raise DataError(f"expected a public key on the curve {_CURVE}, got another")
    return bytes(key)


def class_size(d: int) -> int:
    """The integers of a class in a vector: count, sum and lower triangle."""
    return 1 + d + d * (d + 1) // 2


def check_size(k: int, d: int) -> None:
    """Raise a DataError where the masked moments of k classes do not fit a message."""
    size = 8 * k * class_size(d)
    if size > LARGEST:
        raise DataError(
            f"expected masked moments of at most {LARGEST / 1e9:.1f} GB, got {k:,} classes of "
            f"{d:,} features, which take {size / 1e9:.1f}: use fewer features"
        )


def agreed_key(private: bytes, public: bytes) -> bytes:
    """The key of two clients, the same on both sides, in the form that Fernet takes."""
    one: ec.EllipticCurvePrivateKey = bytes_to_private_key(private)
    return generate_shared_key(one, bytes_to_public_key(public))


def shares_for(
    secrets: Sequence[bytes], own_private: bytes, publics: Mapping[int, bytes], own: int
) -> dict[int, bytes]:
    """Shares of two secrets for each client, encrypted for it alone; a client's own are not."""
    clients = sorted(publics)
    split = [create_shares(secret, threshold(len(clients)), len(clients)) for secret in secrets]
    found = {}
    for place, client in enumerate(clients):
        # Of two secrets, the lengths differ: the first is told apart by its own.
        first, second = (shares[place] for shares in split)
        plain = len(first).to_bytes(4, "big") + first + second
        key = agreed_key(own_private, publics[client])
        found[client] = plain if client == own else encrypt(key, plain)
    return found


def opened_share(sent: bytes, own_private: bytes, public: bytes) -> tuple[bytes, bytes]:
    """The two shares that another client has encrypted for this one."""
    try:
        return split_share(decrypt(agreed_key(own_private, public), sent))
    except InvalidToken as error:
        raise DataError(
            "expected shares that were encrypted for this client, got others"
        ) from error


def split_share(plain: bytes) -> tuple[bytes, bytes]:
    """The two shares in one message."""
    length = int.from_bytes(plain[:4], "big")
    return plain[4 : 4 + length], plain[4 + length :]


def well_formed(shares: Mapping[int, bytes], clients: Iterable[int]) -> list[bytes]:
    """Shares of one secret that have the place of their giver, and are of equal lengths."""
    places = {client: place for place, client in enumerate(sorted(clients), 1)}
    found = [
        one for client, one in shares.items() if one[:4] == places[client].to_bytes(4, "little")
    ]
    length = mode(map(len, found)) if found else 0
    return [one for one in found if len(one) == length]


def secret_of(shares: Sequence[bytes]) -> bytes:
    """The secret that shares are of, where there are as many as `threshold` asks for."""
    try:
        return combine_shares(list(shares))
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise DataError("expected shares of one secret, got others: run the round again") from error


def new_secret() -> bytes:
    """A key that nobody else knows."""
    return os.urandom(KEY_BYTES)


def stream(key: bytes, size: int) -> Vector:
    """PRG of a key of 32 bytes, which is used for one vector and never again."""
    # A counter that starts at zero is sound as no key encrypts two things.
    encryptor = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * size)), dtype="<u8").astype(np.uint64)


def pair_masks_(y: Vector, private: bytes, own: int, publics: Mapping[int, bytes]) -> None:
    """Add to a vector, in place, the masks that a client shares with each other one."""
    for client, public in publics.items():
        if client == own:
            continue
        mask = stream(base64.urlsafe_b64decode(agreed_key(private, public)), len(y))
        if client > own:
            y += mask
        else:
            y -= mask


def vector_of(moments: ClassMoments, labels: Sequence[Label]) -> Vector:
    """Count, sum and lower triangle of each class as one vector; zeros for absent classes."""
    d = moments.n_features
    out = torch.zeros(len(labels), class_size(d), dtype=torch.int64)
    rows, columns = torch.tril_indices(d, d)
    for row, label in zip(out, labels, strict=True):
        if label in moments:
            moment = moments[label]
            row[0] = moment.count
            row[1 : 1 + d] = moment.sum
            row[1 + d :] = moment.second_moment[rows, columns]
    found: Vector = out.reshape(-1).numpy().view(np.uint64)
    return found


def moments_of(vector: Vector, labels: Sequence[Label], d: int) -> ClassMoments:
    """The moments in a sum of such vectors, without classes of no samples."""
    table = torch.from_numpy(vector.view(np.int64)).reshape(len(labels), -1)
    kept = [place for place, count in enumerate(table[:, 0].tolist()) if count]
    if bool(table[[place for place in range(len(labels)) if place not in set(kept)]].any()):
        raise DataError("expected no moments of a class without samples: run the round again")
    if not kept:
        raise DataError("expected at least one sample, got none")
    some = table[kept]
    tensors = {
        "counts": some[:, 0].clone(),
        "sums": some[:, 1 : 1 + d].clone(),
        "second_moments": some[:, 1 + d :].clone(),
    }
    return ClassMoments.from_tensors([labels[place] for place in kept], tensors)


def unmasked(
    masked: Mapping[int, Vector],
    own_keys: Mapping[int, bytes],
    missing: Mapping[int, bytes],
    publics: Mapping[int, bytes],
) -> Vector:
    """The sum of vectors, by the keys b of their clients and the private keys of missing ones."""
    total = sum_of(masked.values())
    present = {client: publics[client] for client in masked}
    try:
        for key in own_keys.values():
            total -= stream(key, len(total))
        for client, private in missing.items():
            pair_masks_(total, private, client, present)  # what it would have added
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        raise DataError("expected shares of keys, got others: run the round again") from error
    return total


def sum_of(vectors: Iterable[Any]) -> Vector:
    """The sum of vectors modulo 2⁶⁴."""
    remaining = iter(vectors)
    total: Vector = next(remaining).copy()
    for vector in remaining:
        if vector.shape != total.shape:
            raise DataError(f"expected vectors of {len(total):,} integers, got {len(vector):,}")
        total += vector
    return total
