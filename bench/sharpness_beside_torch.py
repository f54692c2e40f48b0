"""One sharpness measurement as a multiple of a gradient: ours beside PyTorch with scipy's eigsh, in turns.

    cargo bench -p lastbit --bench engine --no-run     # prints the path of the binary
    python bench/sharpness_beside_torch.py --engine PATH [--rounds 5] [--tolerance 1e-3] [--threads 1] [--only REGEX]

Both find the largest eigenvalue of the Hessian of the same kind of network on a batch, in f64, until the
residual is below the tolerance times the eigenvalue: cold from a random vector, warm from what was found at
weights a small step of gradient descent before. PyTorch's side is reference/eigsh_torch.py.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reference"))
from eigsh_torch import Measured, timed  # noqa: E402

NETWORKS = [("mlp4", 500), ("mlp2", 128), ("cnn", 128), ("resnet8", 64)]


def ours(engine, net, batch, options, what):
    command = [engine, "time", "--net", net, "--batch", str(batch), "--dtype", "f64",
               "--threads", str(options.threads), "--what", what, "--tolerance", str(options.tolerance),
               "--seconds", str(options.seconds)]  # fmt: skip
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {answer.returncode}:\n{answer.stderr[-2000:]}")
    return json.loads(answer.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", required=True, help="the built bench `engine`")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="per measurement")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--only", default="", help="networks whose name matches")
    options = parser.parse_args()
    print("| network, batch | who | gradient, ms | sharpness, ms | products | of a gradient |\n|---|---|---|---|---|---|")
    for net, batch in NETWORKS:
        if not re.search(options.only, net):
            continue
        torch_side = Measured(net, batch, options.threads, options.tolerance)
        rows = {}
        for _ in range(options.rounds):
            gradient = ours(options.engine, net, batch, options, "gradient")["seconds_per_step"]
            for start, what in (("cold", "sharpness"), ("warm", "warm-sharpness")):
                answer = ours(options.engine, net, batch, options, what)
                found = gradient, answer["seconds_per_step"], answer["products"]
                rows.setdefault(f"ours, {start}", []).append(found)
            gradient = timed(torch_side.gradient, options.seconds)
            for start in torch_side.starts:
                seconds = timed(lambda: torch_side.measure(start), options.seconds)
                found = gradient, seconds, torch_side.products
                rows.setdefault(f"PyTorch and eigsh, {start}", []).append(found)
        for name, found in rows.items():
            gradient, sharpness, products = (statistics.median(column) for column in zip(*found))
            ratios = [b / a for a, b, _ in found]
            print(f"| {net}, {batch} | {name} | {1e3 * gradient:.1f} | {1e3 * sharpness:.0f} | {products:.0f} "
                  f"| {statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f}) |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
