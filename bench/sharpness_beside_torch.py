"""One sharpness measurement as a multiple of a gradient: ours beside PyTorch with scipy's eigsh, in turns.

    cargo bench -p lastbit --bench engine --no-run     # prints the path of the binary
    python bench/sharpness_beside_torch.py --engine PATH [--rounds 5] [--tolerance 1e-3]

Both find the largest eigenvalue of the Hessian of the same kind of network on a batch, in f64, from a cold
start, until the residual is below the tolerance times the eigenvalue. PyTorch differentiates the gradient
backwards once more inside a scipy LinearOperator; eigsh (implicitly restarted Lanczos) has its tolerance,
and as many basis vectors as are fastest. Ours also reports the products of a warm start, from
the vectors found at weights a small step of gradient descent before.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reference"))
from networks_torch import build, complete, named, without_running_statistics  # noqa: E402

NETWORKS = [("mlp4", 500), ("resnet8", 64)]
MLP = {"net": "mlp", "hidden": [200] * 4, "act": {"name": "tanh"}, "input": [32, 32, 3], "outputs": 10}


class Torch:
    """A network on a batch, with its Hessian as an operator."""

    def __init__(self, net, batch, threads):
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        description = complete(MLP if net == "mlp4" else named(net))
        height, width, channels = description["input"]
        self.network = without_running_statistics(build(description).double().train())
        self.parameters = list(self.network.parameters())
        self.x = torch.randn(batch, channels, height, width, dtype=torch.float64)
        self.y = torch.randint(description["outputs"], (batch,))
        self.products = 0

    def gradient(self, create_graph=False):
        loss = F.cross_entropy(self.network(self.x), self.y)
        return torch.autograd.grad(loss, self.parameters, create_graph=create_graph)

    def measure(self, tolerance):
        # The graph of the gradient is kept for all products.
        gradient = torch.cat([g.reshape(-1) for g in self.gradient(create_graph=True)])
        n = gradient.numel()

        def product(v):
            self.products += 1
            v = torch.from_numpy(np.ascontiguousarray(v).reshape(-1))
            image = torch.autograd.grad(gradient, self.parameters, v, retain_graph=True)
            return torch.cat([x.reshape(-1) for x in image]).numpy()

        self.products = 0
        operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
        start = np.random.default_rng(0).normal(size=n)
        return eigsh(operator, k=1, which="LA", tol=tolerance, v0=start, ncv=self.basis)[0][0]


def timed(work, seconds):
    work()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def ours(engine, net, batch, threads, tolerance, what, seconds):
    command = [engine, "time", "--net", net, "--batch", str(batch), "--dtype", "f64", "--threads", str(threads),
               "--what", what, "--tolerance", str(tolerance), "--seconds", str(seconds)]  # fmt: skip
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
    options = parser.parse_args()
    print("| network, batch | who | gradient, ms | sharpness, ms | products | of a gradient |\n|---|---|---|---|---|---|")
    for net, batch in NETWORKS:
        torch_side = Torch(net, batch, options.threads)
        # scipy takes 20 basis vectors where nothing is said; fewer can be faster.
        best = {}
        for torch_side.basis in (4, 8, 12, 20):
            torch_side.measure(options.tolerance)
            best[torch_side.basis] = torch_side.products
        torch_side.basis = min(best, key=best.get)
        rows = {"ours, cold": [], "ours, warm": [], "PyTorch and eigsh": []}
        for _ in range(options.rounds):
            args = options.engine, net, batch, options.threads, options.tolerance
            gradient = ours(*args, "gradient", options.seconds)["seconds_per_step"]
            for name, what in (("ours, cold", "sharpness"), ("ours, warm", "warm-sharpness")):
                answer = ours(*args, what, options.seconds)
                rows[name].append((gradient, answer["seconds_per_step"], answer["products"]))
            own = timed(torch_side.gradient, options.seconds)
            measured = timed(lambda: torch_side.measure(options.tolerance), options.seconds)
            rows["PyTorch and eigsh"].append((own, measured, torch_side.products))
        for name, found in rows.items():
            gradient, sharpness, products = (statistics.median(column) for column in zip(*found))
            ratios = [b / a for a, b, _ in found]
            print(f"| {net}, {batch} | {name} | {1e3 * gradient:.1f} | {1e3 * sharpness:.0f} | {products:.0f} "
                  f"| {statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f}) |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
