"""The command ``lastbit``; also ``python -m lastbit``."""

import signal
import sys

from lastbit import _lastbit


def main() -> int:
    """Run the command with the arguments of this process; return its exit code."""
    # The command handles Ctrl-C itself: it saves a checkpoint first.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _lastbit.command(["lastbit", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
