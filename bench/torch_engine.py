"""PyTorch behind the command line of `cargo bench -p lastbit --bench engine`.

    python bench/torch_engine.py time --net resnet20 --batch 64 --dtype f32 --threads 1 \
        --replicas 1 --what gradient|step|hvp --seconds 5 [--how eager|forward|compiled] \
        [--optimizer sgd|nesterov|adam]

Prints one line of JSON. `seconds_per_step` is the median, `best` the least time of one step, in which
every replica takes its turn. As fast as PyTorch goes on a CPU without leaving its usual ways:
the faster memory layout, gradients set to None, the fastest of its three loops over the tensors of an
optimizer. `--how` says:

    eager       as written; hvp by differentiating the gradient backwards once more
    forward     hvp only: the derivative of the gradient along v (torch.func)
    compiled    the loss, or for hvp that derivative, handed to torch.compile, which cannot
                differentiate backwards twice

`rss_before_bytes` is what Python with PyTorch takes before there is a network.
"""

import argparse
import json
import resource
import statistics
import sys
import time
from pathlib import Path

import torch
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reference"))
from networks_torch import build, complete, named, without_running_statistics  # noqa: E402

DTYPES = {"f32": torch.float32, "f64": torch.float64}
LR, DECAY = 0.001, 5e-4
OPTIMIZERS = {
    "sgd": lambda tensors, **kind: torch.optim.SGD(tensors, lr=LR, weight_decay=DECAY, **kind),
    "nesterov": lambda tensors, **kind: torch.optim.SGD(
        tensors, lr=LR, momentum=0.9, nesterov=True, weight_decay=DECAY, **kind
    ),
    "adam": lambda tensors, **kind: torch.optim.Adam(tensors, lr=LR, weight_decay=DECAY, **kind),
}
# The first steps allocate; a compiled one is compiled here.
WARM_UP = 3


def peak_rss():
    """Bytes; Linux counts in KiB."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class Replica:
    """One network with its optimizer."""

    def __init__(self, description, dtype, layout, how):
        self.network = build(description).to(dtype).to(memory_format=layout).train()
        self.parameters = list(self.network.parameters())
        self.direction = [torch.randn_like(p) for p in self.parameters]
        self.backward_twice = how == "eager"
        compiled = torch.compile if how == "compiled" else lambda function: function
        self.loss, self.product = compiled(self.plain_loss), compiled(self.along)

    def plain_loss(self, x, y):
        return F.cross_entropy(self.network(x), y)

    def choose_loop(self, x, y, optimizer):
        """The fastest of the loops over tensors; a step each to warm up, then the best of five."""
        best = {}
        for kind in ({"foreach": False}, {"foreach": True}, {"fused": True}):
            self.optimizer = OPTIMIZERS[optimizer](self.parameters, **kind)
            self.gradient(x, y)
            times = []
            for _ in range(6):
                start = time.perf_counter()
                self.optimizer.step()
                times.append(time.perf_counter() - start)
            best[next(iter(kind))] = (min(times[1:]), self.optimizer)
        self.optimizer = min(best.values(), key=lambda entry: entry[0])[1]

    def gradient(self, x, y):
        for p in self.parameters:
            p.grad = None
        self.loss(x, y).backward()

    def step(self, x, y):
        self.gradient(x, y)
        self.optimizer.step()

    def hvp(self, x, y):
        if self.backward_twice:
            gradient = torch.autograd.grad(self.loss(x, y), self.parameters, create_graph=True)
            return torch.autograd.grad(gradient, self.parameters, self.direction)
        return self.product([p.detach() for p in self.parameters], self.direction, x, y)

    def along(self, theta, v, x, y):
        """The derivative of the gradient along v."""
        names = [name for name, _ in self.network.named_parameters()]

        def loss(theta):
            return F.cross_entropy(torch.func.functional_call(self.network, dict(zip(names, theta)), x), y)

        return torch.func.jvp(torch.func.grad(loss), (theta,), (v,))[1]


def start_torch():
    """PyTorch imports half of itself at the first step of an optimizer."""
    x = torch.ones(1, requires_grad=True)
    x.sum().backward()
    torch.optim.SGD([x], lr=LR).step()


def measure(options):
    start_torch()
    before = peak_rss()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    dtype, description = DTYPES[options.dtype], complete(named(options.net))
    height, width, channels = description["input"]
    # Backward twice is a fifth faster with rows in one piece, all else with channels last.
    twice = options.what == "hvp" and options.how == "eager"
    layout = torch.contiguous_format if twice else torch.channels_last
    x = torch.randn(options.batch, channels, height, width, dtype=dtype).to(memory_format=layout)
    y = torch.randint(description["outputs"], (options.batch,))
    replicas = [Replica(description, dtype, layout, options.how) for _ in range(options.replicas)]
    for replica in replicas:
        if options.what == "step":
            replica.choose_loop(x, y, options.optimizer)
        elif options.what == "hvp":
            without_running_statistics(replica.network)
    times, end = [], None
    while len(times) < WARM_UP + 3 or time.perf_counter() < end:
        start = time.perf_counter()
        for replica in replicas:
            getattr(replica, options.what)(x, y)
        times.append(time.perf_counter() - start)
        if len(times) == WARM_UP:
            end = time.perf_counter() + options.seconds
    counted = times[WARM_UP:]
    return {"seconds_per_step": statistics.median(counted), "best": min(counted), "steps": len(counted),
            "peak_rss_bytes": peak_rss(), "rss_before_bytes": before}  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["time"])
    parser.add_argument("--net", default="resnet20")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--what", choices=["gradient", "step", "hvp"], default="step")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="nesterov")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--how", choices=["eager", "forward", "compiled"], default="eager")
    print(json.dumps(measure(parser.parse_args())))


if __name__ == "__main__":
    main()
