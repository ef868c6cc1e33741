"""Streams of tasks, learners run over them, and the records of what happened."""
