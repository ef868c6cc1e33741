"""The command `redunet`: words to calls, nothing else."""
