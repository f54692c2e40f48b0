#!/usr/bin/env python3
"""Cost of lastbit.torch.perturb over that of a training step, in one run.

    python bench/torch_perturb.py [--device cuda] [--rounds 30] [--processor-time] [gpt resnet18]

Training steps without a perturbation, with k = 3, with "ulp" and with "ulps" take turns, in another order each round. Of
each, the whole training step is timed and the call of optimizer.step() in it. Printed are medians over rounds, and medians
of the differences to the unperturbed step of the same round, in per cent of the training step: of the whole step ("whole"),
and of the call alone ("call"), where other work on the machine disturbs less. With --processor-time the time that the threads of this
process were at work is counted instead of the time that passed: for one thread (OMP_NUM_THREADS=1) on a busy machine.
"""

import argparse
import contextlib
import statistics
import time
from collections.abc import Callable

import torch
from torch_models import MODELS

import lastbit.torch

KINDS = {"none": None, "k = 3": "k", "ulp": "ulp", "ulps": "ulps"}


def overhead(name: str, device: str, rounds: int, clock: Callable[[], float] = time.perf_counter) -> str:
    model, criterion, batch = MODELS[name](device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4)

    def now() -> float:
        if device != "cpu":
            torch.cuda.synchronize()
        return clock()

    def step() -> tuple[float, float]:
        """Seconds of a training step, and of the optimizer's part in it."""
        begin = now()
        optimizer.zero_grad()
        criterion(model(batch[0]), batch[1]).backward()
        middle = now()
        optimizer.step()
        end = now()
        return end - begin, end - middle

    def times(kind: str) -> tuple[float, float]:
        with lastbit.torch.perturb(optimizer, KINDS[kind]) if KINDS[kind] else contextlib.nullcontext():
            step()
            whole, part = zip(step(), step(), step(), strict=True)
        return min(whole), min(part)

    for kind in KINDS:
        times(kind)
    found = []
    for n in range(rounds):
        order = list(KINDS)[n % len(KINDS) :] + list(KINDS)[: n % len(KINDS)]
        measured = {kind: times(kind) for kind in order}
        found.append(measured)
    whole, part = (statistics.median(measured["none"][i] for measured in found) for i in (0, 1))
    line = f"{name:9} step {1e3 * whole:8.2f} ms, of which optimizer.step() {1e3 * part:7.3f} ms"
    for kind in list(KINDS)[1:]:
        differences = [[measured[kind][i] - measured["none"][i] for measured in found] for i in (0, 1)]
        whole_more, part_more = (100 * statistics.median(values) / whole for values in differences)
        line += f" | {kind}: call {part_more:+.2f} %, whole {whole_more:+.2f} %"
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["gpt", "resnet18"], metavar="MODEL", help="%(default)s")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--processor-time", action="store_true")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.processor_time else time.perf_counter
    print(f"torch {torch.__version__}, {arguments.device}, {torch.get_num_threads()} threads, {arguments.rounds} rounds")
    for name in arguments.models:
        print(overhead(name, arguments.device, arguments.rounds, clock), flush=True)


if __name__ == "__main__":
    main()
