#!/usr/bin/env python3
"""lastbit.torch on a GPU, all in one run of about two minutes: does it give what the CPU gives, and what does it cost?

    PYTHONPATH=python:FOLDER_WITH_CURVLINOPS python3 bench/torch_gpu.py [--device cuda]

First small models in float64 are measured on the CPU and on the device, and perturbed steps are compared with PyTorch's own
bit for bit. Then the benchmarks torch_sharpness.py and torch_perturb.py run, and fingerprints are timed. A part that fails is
reported and does not stop the others; the exit status is 1 then.
"""

import argparse
import copy
import importlib.util
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
import torch_perturb
import torch_sharpness
from torch import nn

import lastbit.torch

# The small models of the tests; the benchmarks have a module of the same name.
_spec = importlib.util.spec_from_file_location(
    "small_models", Path(__file__).resolve().parents[1] / "python" / "tests" / "torch_models.py"
)
small = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(small)

CASES: dict[str, Callable[[], tuple]] = {
    "mlp": lambda: (small.mlp(), small.data(6, 3), small.labels(6, 2)),
    "dropout, batch norm": lambda: (small.cnn(), small.data(5, 1, 6, 6), small.labels(5, 3)),
    "lstm": lambda: (small.Recurrent(), small.data(4, 3, 2), small.labels(4, 2)),
    "frozen": lambda: (small.partly_frozen(), small.data(6, 3), small.labels(6, 2)),
    "attention": lambda: (small.Attention(), small.data(4, 3, 4), small.labels(4, 2)),
    "tied": lambda: (small.Tied(), small.data(5, 4), small.labels(5, 4)),
}
CRITERION = nn.CrossEntropyLoss()
VARIANTS = {
    "plain": {},
    "decay": {"weight_decay": 0.1},
    "momentum, decay": {"momentum": 0.9, "weight_decay": 0.1},
    "dampening": {"momentum": 0.9, "dampening": 0.3},
    "nesterov": {"momentum": 0.9, "nesterov": True},
    "nesterov, decay": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    "maximize, nesterov, decay": {"maximize": True, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    "tensor lr": {"lr": torch.tensor(0.1), "momentum": 0.9},
}


def must(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)


def near(a: float, b: float, relative: float) -> bool:
    return a == b or abs(a - b) <= relative * max(abs(a), abs(b))


def measured(name: str, device: str) -> dict:
    """What every function finds on one device, and whether it leaves the model as it was."""
    model, x, y = CASES[name]()
    model = small.double(model).to(device)
    batch = (x.to(device), y.to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5, weight_decay=0.01)
    before = lastbit.torch.fingerprint(model)
    sharpness = lastbit.torch.sharpness(model, CRITERION, batch, optimizer=optimizer, k=2, tolerance=1e-7)
    critical = lastbit.torch.critical_lr(model.eval(), CRITERION, batch, optimizer)
    # The recurrent layers of cuDNN have no backward pass in evaluation mode.
    with torch.backends.cudnn.flags(enabled=False):
        growth = lastbit.torch.growth(model, CRITERION, batch, optimizer, steps=64)
    must(lastbit.torch.fingerprint(model) == before, f"{name} on {device}: the model was changed")
    must(not optimizer.state, f"{name} on {device}: the optimizer was changed")
    return {"fingerprint": before, "sharpness": sharpness, "critical_lr": critical, "growth": growth}


def same_as_on_the_cpu(device: str) -> None:
    for name in CASES:
        ours, reference = measured(name, device), measured(name, "cpu")
        must(ours["fingerprint"] == reference["fingerprint"], f"{name}: fingerprints differ between devices")
        a, b = ours["sharpness"], reference["sharpness"]
        # The error of an eigenvalue is the square of the tolerance of 1e-7 over the gap to the next; float64 adds 1e-13.
        must(all(map(near, a.eigenvalues, b.eigenvalues, [1e-9] * 2)), f"{name}: eigenvalues {a.eigenvalues}, {b.eigenvalues}")
        must(near(a.edge_ratio, b.edge_ratio, 1e-9), f"{name}: edge ratios {a.edge_ratio}, {b.edge_ratio}")
        c, d = ours["critical_lr"], reference["critical_lr"]
        # Both brackets hold it, and are 2 % wide.
        must(c.lower <= d.upper * (1 + 1e-9) and d.lower <= c.upper * (1 + 1e-9), f"{name}: critical learning rates {c}, {d}")
        e, f = ours["growth"], reference["growth"]
        # Two measurements of one rate: four of their standard errors, and 1e-3 where those are next to nothing.
        bound = 1e-3 + 4 * (e.standard_error**2 + f.standard_error**2) ** 0.5
        close = abs(e.growth_per_step - f.growth_per_step) <= bound
        must(close, f"{name}: growth per step {e.growth_per_step}, {f.growth_per_step}, bound {bound}")
        print(
            f"  {name}: sharpness {a.sharpness:.10g} (CPU {b.sharpness:.10g}), critical lr {c.critical_lr:.4g} "
            f"({d.critical_lr:.4g}), {e.verdict} ({f.verdict})"
        )


def steps_left(device: str, k: float | None, variant: dict, dtype: torch.dtype, **implementation: bool) -> list[torch.Tensor]:
    """Parameters, gradients and momentum after four steps."""
    params = [nn.Parameter(small.data(*shape, seed=n, dtype=dtype).to(device)) for n, shape in enumerate([(129, 77), (5,)])]
    optimizer = torch.optim.SGD(params, **({"lr": 0.1} | copy.deepcopy(variant)), **implementation)
    if k is not None:
        lastbit.torch.perturb(optimizer, k=k)
    for n in range(4):
        for i, p in enumerate(params):
            p.grad = small.data(*p.shape, seed=10 * n + i + 3, dtype=dtype).to(device)
        optimizer.step()
    tensors = [p.detach() for p in params] + [p.grad for p in params]
    return tensors + [optimizer.state[p]["momentum_buffer"] for p in params if optimizer.state[p]]


def bits_of_perturbed_steps(device: str) -> None:
    count, failed = 0, []
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        for name, variant in VARIANTS.items():
            for foreach in (None, True, False):
                implementation = {} if foreach is None else {"foreach": foreach}
                plain, same, other = (steps_left(device, k, variant, dtype, **implementation) for k in (None, 4, 3))
                count += 1
                if not all(map(torch.equal, plain, same)):
                    failed.append(f"{name}, {dtype}, foreach={foreach}: k = 4 differs from PyTorch's step")
                if all(map(torch.equal, plain[:2], other[:2])):
                    failed.append(f"{name}, {dtype}, foreach={foreach}: k = 3 is PyTorch's step")
    must(not failed, "\n  ".join(failed))
    print(f"  {count} kinds of steps: k = 4 has the bits of PyTorch's own, k = 3 has others")
    scaled = {}
    for k in (None, 4, 3):
        torch.manual_seed(0)
        model = nn.Linear(30, 30).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        scaler = torch.amp.GradScaler(device, init_scale=1024.0)
        perturbation = lastbit.torch.perturb(optimizer, k=k) if k else None
        for n in range(4):
            optimizer.zero_grad()
            with torch.autocast(device, dtype=torch.float16):
                x = small.data(8, 30, seed=n, dtype=torch.float32).to(device) * (float("inf") if n == 1 else 1.0)
                loss = model(x).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        must(perturbation is None or perturbation.steps == 3, "GradScaler: the step with an infinite gradient was not skipped")
        scaled[k] = lastbit.torch.fingerprint(model)
    must(scaled[4] == scaled[None] != scaled[3], "GradScaler: k = 4 must have the bits of PyTorch's step, and k = 3 others")
    print("  GradScaler and autocast: the same")
    try:
        lastbit.torch.perturb(torch.optim.SGD(model.parameters(), lr=0.1, fused=True))
    except ValueError as error:
        print(f"  fused: {error}")
    else:
        raise AssertionError("fused=True was not refused")


def fingerprints(device: str) -> None:
    model, _, _ = torch_perturb.MODELS["resnet18"](device)
    lastbit.torch.fingerprint(model)
    times = []
    for _ in range(10):
        if device != "cpu":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        lastbit.torch.fingerprint(model)
        times.append(time.perf_counter() - begin)
    size = sum(tensor.nbytes for tensor in model.state_dict().values())
    print(f"  resnet18, {size / 1e6:.1f} MB: {1e3 * statistics.median(times):.2f} ms (median of 10)")


def sharpness_beside_eigsh(device: str) -> None:
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = False
    try:
        for name in ("mlp", "gpt", "resnet18"):
            print("  " + torch_sharpness.beside(name, device, 2, 1e-3), flush=True)
    finally:
        torch.backends.cudnn.deterministic = False


def warm_sharpness(device: str) -> None:
    for name in ("mlp", "gpt", "resnet18"):
        print("  " + torch_sharpness.follow(name, device, 20, 1e-3), flush=True)


def cost_of_perturb(device: str) -> None:
    for name in ("gpt", "resnet18"):
        print("  " + torch_perturb.overhead(name, device, 30), flush=True)


PARTS = [same_as_on_the_cpu, bits_of_perturbed_steps, fingerprints, cost_of_perturb, warm_sharpness, sharpness_beside_eigsh]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    device = parser.parse_args().device
    name = torch.cuda.get_device_name() if device != "cpu" else "CPU"
    print(f"Python {sys.version.split()[0]}, torch {torch.__version__}, {name}", flush=True)
    failed = []
    for part in PARTS:
        begin = time.perf_counter()
        print(part.__name__.replace("_", " "), flush=True)
        try:
            part(device)
        except Exception:
            traceback.print_exc(file=sys.stdout)
            failed.append(part.__name__)
        print(f"  ({time.perf_counter() - begin:.1f} s)", flush=True)
    print(f"failed: {', '.join(failed)}" if failed else "all parts passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
