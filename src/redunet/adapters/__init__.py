"""The estimators in the words of other packages, one file each, imported only when used.

`redunet.adapters.river` for River's streams of dictionaries, `redunet.adapters.avalanche` for
Avalanche's benchmarks, `redunet.adapters.mlflow` and `redunet.adapters.wandb` to log records.
See docs/adapters.md.
"""
