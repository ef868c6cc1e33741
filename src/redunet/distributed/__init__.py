"""Learning on many machines: the same model, to the byte, as learning on one.

`learn` and `unlearn` take data that is spread over the workers of a Dask cluster.
They need the packages of ``redunet[dask]``.
"""

from redunet.distributed.learning import learn, unlearn

__all__ = ["learn", "unlearn"]
