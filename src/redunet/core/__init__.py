"""The mathematics: moments, layers, networks, read-outs. It needs PyTorch and nothing else."""
