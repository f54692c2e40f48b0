"""The engine beside PyTorch on this machine's CPU: steps, Hessian-vector products, memory.

    cargo build --release -p lastbit --bench engine
    python bench/engine_beside_torch.py --engine target/release/deps/engine-... \
        [--rounds 5] [--seconds 5] [--only REGEX] [--compiled]

Both sides speak one command line (see `torch_engine.py`) and run in a process per measurement, so that
threads and peak memory are their own. Within a round they take turns, so that what the machine does
meanwhile hits both; the tables show medians over the rounds, and the median, least and largest
of the ratios within a round. A step is forward, backward and SGD with Nesterov momentum 0.9 (or Adam, where the label says so) and decay
5e-4; with six replicas all six take one. `--only` selects rows by their label, `--compiled` adds
rows with torch.compile on the side of PyTorch (minutes to compile).

Memory is that of the step: peak resident size of the whole process, and for PyTorch also
without what Python and its libraries take before there is a network.

The engine's `hash` must not depend on threads or rounds; exit code 1 if it does.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

TORCH = [sys.executable, "-W", "ignore", str(Path(__file__).resolve().parent / "torch_engine.py")]
MIB = 2**20


# Networks by their names in networks_torch.py, batch size, optimizer, replicas, precisions.
BOTH = ("f32", "f64")
NETWORKS = [
    ("ResNet-20", "resnet20", 64, "nesterov", 1, BOTH),
    ("ResNet-20, Adam", "resnet20", 64, "adam", 1, BOTH),
    ("ResNet-56", "resnet56", 32, "nesterov", 1, BOTH),
    ("six ResNet-20", "resnet20", 64, "nesterov", 6, ("f32",)),
    ("ResNet-18 of width 64", "resnet18", 32, "nesterov", 1, BOTH),
    ("ResNet-18 of width 64", "resnet18", 128, "nesterov", 1, ("f32",)),
    ("VGG-11 of width 16", "vgg11-narrow", 32, "nesterov", 1, BOTH),
    ("VGG-11", "vgg11-bn", 32, "nesterov", 1, BOTH),
    ("VGG-16", "vgg16-bn", 32, "nesterov", 1, BOTH),
    ("VGG-16, Adam", "vgg16-bn", 32, "adam", 1, BOTH),
    ("VGG-16", "vgg16-bn", 128, "nesterov", 1, ("f32",)),
    ("CNN 8-16", "cnn", 32, "nesterov", 1, BOTH),
    ("CNN 8-16", "cnn", 256, "nesterov", 1, ("f32",)),
    ("MLP 3072-200-200-10", "mlp2", 32, "nesterov", 1, ("f32",)),
    ("MLP 3072-200-200-10", "mlp2", 128, "nesterov", 1, BOTH),
    ("MLP 3072-200-200-10, Adam", "mlp2", 128, "adam", 1, BOTH),
    ("MLP 3072-4x1000-10", "mlp1000", 128, "nesterov", 1, BOTH),
    ("MLP 3072-4x1000-10, Adam", "mlp1000", 128, "adam", 1, BOTH),
]


def setting(label, net, batch, threads, dtype="f32", replicas=1, what="step", optimizer="nesterov", how="eager"):
    return {"label": label, "net": net, "batch": batch, "threads": threads, "dtype": dtype,
            "replicas": replicas, "what": what, "optimizer": optimizer, "how": how}  # fmt: skip


STEPS = [
    setting(f"{label}, batch {batch}, {dtype}, {threads} thread{'s' * (threads > 1)}", net, batch, threads,
            dtype, replicas, optimizer=optimizer)
    for label, net, batch, optimizer, replicas, dtypes in NETWORKS
    for dtype in dtypes
    for threads in (1, 2)
]  # fmt: skip
# Each side's product beside its own gradient.
PRODUCTS = [("ResNet-20, batch 64, f32, 1 thread", {"net": "resnet20", "batch": 64, "threads": 1})]
TORCH_PRODUCTS = [("eager", "PyTorch, backward twice"), ("forward", "PyTorch, forward over backward"),
                  ("compiled", "PyTorch, the same compiled")]  # fmt: skip


def call(command, setting, seconds, flags):
    arguments = [word for flag in flags for word in (f"--{flag}", str(setting[flag]))]
    command = [*command, "time", *arguments, "--seconds", str(seconds)]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {answer.returncode}:\n{answer.stderr[-2000:]}")
    return json.loads(answer.stdout.splitlines()[-1])


class Sides:
    """The two programs, and the hashes one of them has printed."""

    def __init__(self, options):
        self.options, self.hashes = options, {}

    def ours(self, setting):
        flags = ["net", "batch", "dtype", "threads", "replicas", "what", "optimizer"]
        answer = call([self.options.engine], setting, self.options.seconds, flags)
        key = tuple(setting[flag] for flag in flags if flag != "threads")
        self.hashes.setdefault(key, set()).add(answer["hash"])
        return answer

    def torch(self, setting):
        flags = ["net", "batch", "dtype", "threads", "replicas", "what", "optimizer", "how"]
        return call(TORCH, setting, self.options.seconds, flags)

    def changing_hashes(self):
        return {key: found for key, found in self.hashes.items() if len(found) > 1}


def median(answers, key="seconds_per_step"):
    return statistics.median(answer[key] for answer in answers)


def spread(ratios):
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def ratios(above, below):
    return [a["seconds_per_step"] / b["seconds_per_step"] for a, b in zip(above, below)]


def step_tables(sides, rows, rounds):
    measured = []
    print("| step | ours, ms | PyTorch, ms | PyTorch/ours |\n|---|---|---|---|")
    for row in rows:
        ours, torch = zip(*((sides.ours(row), sides.torch(row)) for _ in range(rounds)))
        measured.append((row, ours, torch))
        print(f"| {row['label']} | {1e3 * median(ours):.1f} | {1e3 * median(torch):.1f} "
              f"| {spread(ratios(torch, ours))} |", flush=True)  # fmt: skip
    print("\n| peak memory of a step | ours, MiB | PyTorch, MiB | without its libraries |\n|---|---|---|---|")
    for row, ours, torch in measured:
        peak, before = median(torch, "peak_rss_bytes"), median(torch, "rss_before_bytes")
        print(f"| {row['label']} | {median(ours, 'peak_rss_bytes') / MIB:.0f} | {peak / MIB:.0f} "
              f"| {(peak - before) / MIB:.0f} |")  # fmt: skip


def product_table(sides, label, network, rounds, ways):
    """Gradient and product of every way, in turns."""
    gradient, product = (setting(label, what=what, **network) for what in ("gradient", "hvp"))
    answers = {name: [] for name in ["ours", *(name for _, name in ways)]}
    for _ in range(rounds):
        answers["ours"].append((sides.ours(gradient), sides.ours(product)))
        for how, name in ways:
            # What is compiled is compared with a compiled gradient.
            own = gradient | {"how": "compiled" if how == "compiled" else "eager"}
            answers[name].append((sides.torch(own), sides.torch(product | {"how": how})))
    print(f"\n| {label} | gradient, ms | H v, ms | H v / gradient |\n|---|---|---|---|")
    for name, pairs in answers.items():
        gradients, products = zip(*pairs)
        print(f"| {name} | {1e3 * median(gradients):.1f} | {1e3 * median(products):.1f} "
              f"| {spread(ratios(products, gradients))} |", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", required=True, help="the built bench `engine`")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="per measurement")
    parser.add_argument("--only", default="", help="rows whose label matches")
    parser.add_argument("--compiled", action="store_true", help="torch.compile too")
    options = parser.parse_args()

    rows = STEPS
    if options.compiled:
        compiled = [row | {"label": f"{row['label']}, compiled", "how": "compiled"} for row in STEPS]
        rows = [row for pair in zip(STEPS, compiled) for row in pair]
    rows = [row for row in rows if re.search(options.only, row["label"])]
    ways = [way for way in TORCH_PRODUCTS if options.compiled or way[0] != "compiled"]
    sides = Sides(options)
    if rows:
        step_tables(sides, rows, options.rounds)
    for label, network in PRODUCTS:
        if re.search(options.only, f"{label}, H v"):
            product_table(sides, label, network, options.rounds, ways)
    if changing := sides.changing_hashes():
        sys.exit(f"the engine's bits depend on threads or rounds: {changing}")
    print("\nThe engine's hashes are the same in all rounds and for all numbers of threads.")


if __name__ == "__main__":
    main()
