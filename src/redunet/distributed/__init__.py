"""Many processes and machines: the same model, to the byte, and the same labels, as on one.

`learn` and `unlearn` take data that is spread over the workers of a Dask cluster.
They need the packages of ``redunet[dask]``. `ShardedClassifier` answers by a `group` of processes,
each with some of the classes of a model.
"""

from redunet.distributed.dask_learning import learn, unlearn
from redunet.distributed.group import group
from redunet.distributed.sharded import ShardedClassifier

__all__ = ["ShardedClassifier", "group", "learn", "unlearn"]
