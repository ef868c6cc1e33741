"""The command `redunet`: ready for Ctrl-C before anything that takes time is loaded."""

import os
import sys


def main() -> None:
    """Run the command that the words of this process ask for, and end the process."""
    try:
        from redunet import interrupts

        interrupts.listen()
        from redunet.cli.process import run
    except KeyboardInterrupt:
        os.write(2, b"redunet: stopped; nothing was changed\n")
        os._exit(1)
    sys.exit(run())


if __name__ == "__main__":
    main()
