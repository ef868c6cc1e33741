"""Encoders: pretrained networks that turn a text or an image into a vector.

`open_encoder` opens one by name, from the package that carries its weights, or
from a folder in Hugging Face layout; nothing is ever fetched. Every sample is
encoded by itself and by one thread, so the bits of its vector depend on no other
sample, on no batch and on no number of threads; they may differ between machines,
devices and versions of the libraries. On a GPU images go through in batches, always
of one shape.
"""

from redunet.encoders.base import Encoder, EncoderId
from redunet.encoders.known import NAMES, encoder_of, open_encoder

__all__ = ["NAMES", "Encoder", "EncoderId", "encoder_of", "open_encoder"]
