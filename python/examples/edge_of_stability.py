"""Edge ratio of three optimizers while they train a small network on the full batch.

    pip install .[torch] matplotlib
    python python/examples/edge_of_stability.py [edge.png]

For gradient descent, momentum and Adam, the sharpness rises until it reaches the optimizer's stability limit (edge ratio
1) and then stays close to it.
"""

import sys

import torch
from torch import nn

import lastbit.torch


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(1, 50), nn.Tanh(), nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 1)).double()


def edge_ratios(optimizer_of, steps: int, every: int = 20) -> tuple[list[int], list[float]]:
    """Trains on the full batch; returns steps and edge ratios."""
    x = torch.linspace(-1, 1, 40, dtype=torch.float64)[:, None]
    y = torch.cos(5 * torch.arccos(x))  # the fifth Chebyshev polynomial
    model, criterion = network(), nn.MSELoss()
    optimizer = optimizer_of(model.parameters())
    measured, at = [], []
    found = None
    for step in range(steps + 1):
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        if step % every == 0 and step > 0:
            found = lastbit.torch.sharpness(model, criterion, (x, y), optimizer=optimizer, start=found, seed=step)
            measured.append(found.edge_ratio)
            at.append(step)
        optimizer.step()
    return at, measured


RUNS = {
    "gradient descent, lr 0.05": (lambda p: torch.optim.SGD(p, lr=0.05), 12000),
    "momentum 0.5, lr 0.07": (lambda p: torch.optim.SGD(p, lr=0.07, momentum=0.5), 8000),
    "Adam, lr 0.001": (lambda p: torch.optim.Adam(p, lr=0.001), 8000),
}


def main(path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for name, (optimizer_of, steps) in RUNS.items():
        at, ratios = edge_ratios(optimizer_of, steps)
        last = sorted(ratios[-len(ratios) // 4 :])
        print(f"{name}: median edge ratio of the last quarter {last[len(last) // 2]:.3f}, from {last[0]:.3f} to {last[-1]:.3f}")
        axes.plot([step / steps for step in at], ratios, label=f"{name}, {steps} steps", linewidth=1)
    axes.axhline(1, color="black", linewidth=0.8, linestyle="dashed")
    axes.set(xlabel="share of the training", ylabel="edge ratio (1 = stability limit)", ylim=(0, 2))
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "edge.png")
