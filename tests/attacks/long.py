"""A long training: does its memory stay flat?

A network of a few weights takes as many steps as fit, with rows of metrics, checkpoints, sharpness and attribution. What
a training of a day would gather in memory shows in minutes, because a step takes microseconds. The resident memory
(VmRSS of /proc) is sampled. Its largest value in the last quarter of the run may exceed that in the second quarter, the
first after the start, by 2 MiB: in 10 minutes of processor time, a leak of one byte a step is more than that.
"""

import itertools
import re
import resource
import tempfile
import time
from pathlib import Path

from . import work

CONFIG = """
data = { name = "mnist01", limit = 24, test-limit = 8 }
network = { kind = "mlp", hidden = [3] }
optimizer = { name = "nesterov", lr = 0.05 }
training = { steps = 1000000000, batch = 12, metrics-every = 50, evaluate-every = 200, checkpoint-every = 2000 }
sharpness = { every = 2000, top = 2 }
attribution = { every = 2000 }
replicas = { k = [1, 3] }
"""
ALLOWED = 2 * 1024  # KiB
SAMPLES_A_SECOND = 10


def add_arguments(attacks) -> None:
    parser = attacks.add_parser("long", help=__doc__.splitlines()[0], description=__doc__)
    parser.add_argument("--minutes", type=float, default=0.2, help="of the clock; default: %(default)s")
    parser.set_defaults(run=attack)


def attack(arguments) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "long.toml").write_text(CONFIG)
        command = f"train long.toml --out run --time-limit {60 * arguments.minutes:.0f}s"
        process = work.start(arguments.program, folder, command, output=folder / "output")
        samples = []
        while process.poll() is None:
            samples += resident(process.pid)
            time.sleep(1 / SAMPLES_A_SECOND)
        output = (folder / "output").read_text()
        stopped = re.search(r"Time limit reached after step (\d+)", output)
        assert process.returncode == 0 and stopped, output
        steps, rows = int(stopped[1]), (folder / "run/metrics.csv").read_bytes().count(b"\n") - 1
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime
    print(f"{steps} steps in {seconds:.0f} s of processor time, {rows} rows of metrics, {len(samples)} samples of memory")
    bounds = [len(samples) * i // 4 for i in range(5)]
    quarters = [max(samples[begin:end]) for begin, end in itertools.pairwise(bounds)]
    growth = quarters[3] - quarters[1]
    print(f"at most {', '.join(map(str, quarters))} KiB in the quarters of the run")
    print(f"from the second quarter to the last, memory grew by {growth} KiB; allowed: {ALLOWED} KiB")
    return 1 if growth > ALLOWED else 0


def resident(process: int) -> list[int]:
    """The resident memory in KiB; nothing where the process has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(found) for found in re.findall(r"VmRSS:\s+(\d+) kB", status)]
