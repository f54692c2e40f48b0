#!/usr/bin/env python3
"""Time of lastbit.torch.sharpness beside curvlinops with scipy's eigsh, on the same models in one run.

    pip install . torch torchvision curvlinops-for-pytorch
    python bench/torch_sharpness.py [--device cuda] [--rounds 3] [mlp gpt resnet18]
    python bench/torch_sharpness.py --follow 20 [--device cuda] [mlp gpt resnet18]

Both search the largest eigenvalue of the Hessian to the same tolerance of the residual, relative to that eigenvalue.
"cold" starts from a random vector; "warm" repeats the measurement after one step of SGD, from the vectors found before.
Times are medians over rounds; both methods take turns in each round.

With --follow, a training by SGD with momentum is measured so many times, five steps apart, each time from the vectors found
before: how many HVPs that takes.
"""

import argparse
import statistics
import time

import torch
from torch_models import MODELS

import lastbit.torch


def beside(name: str, device: str, rounds: int, tolerance: float) -> str:
    from curvlinops import HessianLinearOperator
    from scipy.sparse.linalg import LinearOperator, eigsh
    from torch.nn.attention import SDPBackend, sdpa_kernel

    model, criterion, batch = MODELS[name](device)
    model.eval()
    params = [p for p in model.parameters() if p.requires_grad]

    def now() -> float:
        if device != "cpu":
            torch.cuda.synchronize()
        return time.perf_counter()

    def ours(start=None):
        begin = now()
        found = lastbit.torch.sharpness(model, criterion, batch, tolerance=tolerance, start=start)
        return now() - begin, found

    def theirs():
        begin = now()
        with sdpa_kernel(SDPBackend.MATH):
            return searched(begin)

    def searched(begin):
        operator = HessianLinearOperator(model, criterion, params, [batch], check_deterministic=True).to_scipy()
        count = 0

        def product(v):
            nonlocal count
            count += 1
            return operator @ v

        counted = LinearOperator(operator.shape, matvec=product, dtype=operator.dtype)
        (value,) = eigsh(counted, k=1, which="LA", tol=tolerance, return_eigenvectors=False)
        return now() - begin, float(value), count

    ours()
    times = {"cold": [], "warm": [], "eigsh": []}
    optimizer = torch.optim.SGD(params, lr=1e-3)
    for _ in range(rounds):
        seconds, found = ours()
        times["cold"].append(seconds)
        seconds, value, products = theirs()
        times["eigsh"].append(seconds)
        optimizer.zero_grad()
        criterion(model(batch[0]), batch[1]).backward()
        optimizer.step()
        seconds, warm = ours(found)
        times["warm"].append(seconds)
    cold, again, eigsh_time = (statistics.median(times[key]) for key in ("cold", "warm", "eigsh"))
    return (
        f"{name:9} {found.parameters:>9} | lastbit cold {cold:7.3f} s, {found.hvps:3} HVPs, {found.sharpness:.6g} | "
        f"warm {again:7.3f} s, {warm.hvps:2} HVPs | curvlinops, eigsh {eigsh_time:7.3f} s, {products:3} HVPs, {value:.6g} | "
        f"cold {cold / eigsh_time:.2f}, warm {again / eigsh_time:.2f} of eigsh"
    )


def follow(name: str, device: str, measurements: int, tolerance: float) -> str:
    model, criterion, batch = MODELS[name](device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    found, hvps, sharpnesses = None, [], []
    for _ in range(measurements + 1):
        found = lastbit.torch.sharpness(model, criterion, batch, optimizer=optimizer, tolerance=tolerance, start=found)
        hvps.append(found.hvps)
        sharpnesses.append(found.sharpness)
        for _ in range(5):
            optimizer.zero_grad()
            criterion(model(batch[0]), batch[1]).backward()
            optimizer.step()
    warm = hvps[1:]
    return (
        f"{name:9} cold {hvps[0]} HVPs; {measurements} warm ones, 5 steps apart: median {statistics.median(warm):g}, "
        f"at most {max(warm)} HVPs {warm}; sharpness from {sharpnesses[0]:.4g} to {sharpnesses[-1]:.4g}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL", help="%(default)s")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--follow", type=int, default=0, metavar="MEASUREMENTS")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    arguments = parser.parse_args()
    # curvlinops refuses a model whose gradients are not reproducible.
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = False
    print(f"torch {torch.__version__}, {arguments.device}, {torch.get_num_threads()} threads, tolerance {arguments.tolerance}")
    for name in arguments.models:
        if arguments.follow:
            print(follow(name, arguments.device, arguments.follow, arguments.tolerance), flush=True)
            continue
        print(beside(name, arguments.device, arguments.rounds, arguments.tolerance), flush=True)


if __name__ == "__main__":
    main()
