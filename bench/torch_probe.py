#!/usr/bin/env python3
"""Cost of lastbit.torch.Probe with the preset "cheap" over that of a training, in one run.

    python bench/torch_probe.py [--device cuda] [--seconds 120] [--examples 8] [mlp gpt resnet18]

Trains without a probe for as many steps as fit into the time, and then the same steps with a probe. Stated are the share of
the time that the probe measured of itself, and the difference of the wall times, which on a busy machine is mostly noise. The
bits of both models must be the same.
"""

import argparse
import copy
import tempfile
import time

import torch
from torch_models import MODELS

import lastbit
import lastbit.torch


def train(model, criterion, batch, device, probe_of=None, *, steps=None, seconds=None):
    """Steps made, wall time, and the probe."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4)
    probe = probe_of(model, optimizer) if probe_of else None
    begin, done = time.perf_counter(), 0
    while done < steps if steps else time.perf_counter() - begin < seconds:
        optimizer.zero_grad()
        loss = criterion(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        done += 1
        if probe:
            probe.step(done, loss=loss)
        elif device != "cpu" and done % 10 == 0:
            # A queue of steps would run on after the time.
            torch.cuda.synchronize()
    if device != "cpu":
        torch.cuda.synchronize()
    return done, time.perf_counter() - begin, probe


def cost(name, device, seconds, examples):
    model, criterion, batch = MODELS[name](device)
    start = copy.deepcopy(model)
    steps, alone, _ = train(model, criterion, batch, device, seconds=seconds)
    probe_batch = (batch[0][:examples], batch[1][: examples * (len(batch[1]) // len(batch[0]))])
    out = tempfile.mkdtemp() + "/run"

    def probe_of(model, optimizer):
        return lastbit.torch.Probe(model, criterion, probe_batch, optimizer, out=out)

    _, probed, probe = train(start, criterion, batch, device, probe_of, steps=steps)
    summary = probe.close()
    same = lastbit.torch.fingerprint(model).total == lastbit.torch.fingerprint(start).total
    hvps = lastbit.read(out).metrics["hvps"]
    return (
        f"{name:9} {steps} steps of {1e3 * alone / steps:.2f} ms; {summary['rows']} measurements (HVPs: {hvps[0]}, then a median of "
        f"{sorted(hvps)[len(hvps) // 2]}), {100 * summary['measuring_share']:.2f} % of the time; wall time "
        f"{100 * (probed / alone - 1):+.1f} %; {'same bits' if same else 'OTHER BITS'}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["mlp", "gpt", "resnet18"], metavar="MODEL", help="%(default)s")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--examples", type=int, default=8, help="examples of the probe batch")
    arguments = parser.parse_args()
    # Kernels that give the same bits twice, so that the comparison of bits says something.
    torch.use_deterministic_algorithms(True, warn_only=True)
    for name in arguments.models:
        print(cost(name, arguments.device, arguments.seconds, arguments.examples), flush=True)


if __name__ == "__main__":
    main()
