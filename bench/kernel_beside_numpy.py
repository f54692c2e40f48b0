"""One step of the one-layer network beside numpy with its patch matrix kept, one thread each.

    python bench/kernel_beside_numpy.py

Builds the bench, then lets both sides take turns, each in a process of its own, and prints the
medians and the median of the ratios within a turn: what the machine does meanwhile hits both.
"""

import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "reference"))
from kernel_numpy import seconds_with  # noqa: E402

TURNS = 5
# Seconds per step of the authors' released script, as known; it is not run here.
AUTHORS = 5.0


def ours():
    """Seconds per step. Nothing in a step starts a thread."""
    command = ["cargo", "bench", "--quiet", "-p", "lastbit", "--bench", "kernel", "--", "step"]
    answer = subprocess.run(command, cwd=ROOT, env=os.environ, check=True, capture_output=True, text=True)
    return 1e-3 * float(answer.stdout.split()[-1])


def main():
    # The first run compiles.
    ours()
    turns = [(ours(), seconds_with(1)) for _ in range(TURNS)]
    step, numpy = (statistics.median(side) for side in zip(*turns))
    ratio = statistics.median(b / a for a, b in turns)
    print("| step, 256 x 256, window 32 x 32 | ms | times ours |")
    print("|---|---|---|")
    print(f"| ours | {1e3 * step:.3f} | 1 |")
    print(f"| numpy, patch matrix kept | {1e3 * numpy:.1f} | {ratio:.0f} |")
    print(f"| authors' script, about | {1e3 * AUTHORS:.0f} | {AUTHORS / step:.0f} |")


if __name__ == "__main__":
    main()
