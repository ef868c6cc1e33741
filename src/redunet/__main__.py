"""So that `python -m redunet` is the command `redunet`."""

from redunet.cli import main

main()
