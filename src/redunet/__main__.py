"""So that `python -m redunet` is the command `redunet`."""

from redunet.cli.app import main

main()
