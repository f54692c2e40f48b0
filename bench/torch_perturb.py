#!/usr/bin/env python3
"""Cost of lastbit.torch.perturb over that of a training step, in one run.

    python bench/torch_perturb.py [--device cuda] [--rounds 30] [gpt resnet18]

Steps without a perturbation, with k = 3 and with "ulp" take turns; the median over rounds of the fastest of three is compared.
"""

import argparse
import statistics
import time

import torch
from torch_models import MODELS

import lastbit.torch


def overhead(name: str, device: str, rounds: int) -> str:
    model, criterion, batch = MODELS[name](device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4)

    def step() -> float:
        if device != "cpu":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        optimizer.zero_grad()
        criterion(model(batch[0]), batch[1]).backward()
        optimizer.step()
        if device != "cpu":
            torch.cuda.synchronize()
        return time.perf_counter() - begin

    for _ in range(3):
        step()
    times = {"none": [], "k": [], "ulp": []}
    for _ in range(rounds):
        times["none"].append(min(step(), step(), step()))
        for kind in ("k", "ulp"):
            with lastbit.torch.perturb(optimizer, kind):
                step()  # allocates
                times[kind].append(min(step(), step(), step()))
    none, k, ulp = (statistics.median(values) for values in times.values())
    return f"{name:9} step {1e3 * none:8.2f} ms, with k = 3 {100 * (k / none - 1):+.1f} %, with ulp {100 * (ulp / none - 1):+.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["gpt", "resnet18"], metavar="MODEL", help="%(default)s")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    for name in arguments.models:
        print(overhead(name, arguments.device, arguments.rounds), flush=True)


if __name__ == "__main__":
    main()
