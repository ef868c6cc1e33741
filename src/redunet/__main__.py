"""The command `redunet`: ready for Ctrl-C before anything that takes time is loaded."""

import os
import sys


def main() -> None:
    """Run the command that the words of this process ask for, and end the process."""
    # Threads of PyTorch that wait for each other shall soon sleep instead of spinning on: that is
    # as fast alone, and faster beside busy programs. It is read when PyTorch is loaded. Programs
    # that import the package decide for themselves, and for the processes that they start.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")
    try:
        from redunet.safety import interrupts

        interrupts.listen()
        from redunet.cli.process import run
    except KeyboardInterrupt:
        os.write(2, b"redunet: stopped; nothing was changed\n")
        os._exit(1)
    sys.exit(run())


if __name__ == "__main__":
    main()
