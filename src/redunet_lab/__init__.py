"""Streams of tasks, learners run over them, and the records of what happened.

`run_learners` runs any learners over any stream; `class_stream` makes a stream
of a data set, `Samples` a data set of arrays.
"""

from redunet.experiments.own_learners import run_learners
from redunet.experiments.streams import Samples, Task, class_stream

__all__ = ["Samples", "Task", "class_stream", "run_learners"]
