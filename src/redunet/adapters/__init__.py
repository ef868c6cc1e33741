"""The estimators in the words of other packages, one file each, imported only when used.

`redunet.adapters.river` for River's streams of dictionaries, `redunet.adapters.avalanche` for
Avalanche's benchmarks.
"""
