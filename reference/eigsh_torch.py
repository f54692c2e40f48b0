"""The largest eigenvalue of a Hessian as one finds it without us: PyTorch's double backward pass inside
scipy's eigsh.

    python reference/eigsh_torch.py [--net mlp4] [--batch 500] [--tolerance 1e-3] [--seconds 2] [--threads 1]

prints the time of a gradient, and the time and the Hessian-vector products of a measurement, from a random
vector (cold) and from the vector found at weights a small step of gradient descent before (warm), in f64.
`python bench/sharpness_beside_torch.py` puts ours beside it.

eigsh (implicitly restarted Lanczos, ARPACK) takes 20 basis vectors where nothing is said; the number that
needs the fewest products is taken here. It checks for convergence only when its basis is full, so a warm
start saves little.
"""

import argparse
import statistics
import time

import numpy as np
import torch
from networks_torch import build, complete, named, without_running_statistics
from scipy.sparse.linalg import LinearOperator, eigsh
from torch.nn import functional as F

MLP = {"net": "mlp", "hidden": [200] * 4, "act": {"name": "tanh"}, "input": [32, 32, 3], "outputs": 10}
BASES = (4, 8, 20)
STEP = 0.01


class Measured:
    """A network on a batch, with its Hessian as an operator."""

    def __init__(self, net, batch, threads, tolerance):
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        description = complete(MLP if net == "mlp4" else named(net))
        height, width, channels = description["input"]
        self.network = without_running_statistics(build(description).double().train())
        self.parameters = list(self.network.parameters())
        self.x = torch.randn(batch, channels, height, width, dtype=torch.float64)
        self.y = torch.randint(description["outputs"], (batch,))
        self.tolerance, self.products, self.basis = tolerance, 0, {}
        cold = np.random.default_rng(0).normal(size=sum(p.numel() for p in self.parameters))
        self.starts = {"cold": cold}
        _, self.starts["warm"] = self.measure("cold", 20)
        with torch.no_grad():
            for parameter, slope in zip(self.parameters, self.gradient()):
                parameter -= STEP * slope
        for start in self.starts:
            counts = {}
            for basis in BASES:
                self.measure(start, basis)
                counts[basis] = self.products
            self.basis[start] = min(counts, key=counts.get)

    def gradient(self, create_graph=False):
        with torch.enable_grad():
            loss = F.cross_entropy(self.network(self.x), self.y)
            return torch.autograd.grad(loss, self.parameters, create_graph=create_graph)

    def measure(self, start, basis=None):
        """The eigenvalue and its vector; the graph of the gradient is kept for all products."""
        gradient = torch.cat([g.reshape(-1) for g in self.gradient(create_graph=True)])
        n = gradient.numel()

        def product(v):
            self.products += 1
            v = torch.from_numpy(np.ascontiguousarray(v).reshape(-1))
            image = torch.autograd.grad(gradient, self.parameters, v, retain_graph=True)
            return torch.cat([x.reshape(-1) for x in image]).numpy()

        self.products = 0
        operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
        values, vectors = eigsh(operator, k=1, which="LA", tol=self.tolerance, v0=self.starts[start],
                                ncv=basis or self.basis[start])  # fmt: skip
        return values[0], vectors[:, 0]


def timed(work, seconds):
    """Median time of a call, after one that does not count."""
    work()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--net", default="mlp4")
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--seconds", type=float, default=2.0, help="per measurement")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    side = Measured(options.net, options.batch, options.threads, options.tolerance)
    gradient = timed(side.gradient, options.seconds)
    print(f"gradient: {1e3 * gradient:.1f} ms")
    for start in side.starts:
        seconds = timed(lambda: side.measure(start), options.seconds)
        print(f"sharpness, {start}: {1e3 * seconds:.0f} ms, {side.products} products, "
              f"{seconds / gradient:.1f} gradients, {side.basis[start]} basis vectors")  # fmt: skip


if __name__ == "__main__":
    main()
