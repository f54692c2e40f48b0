"""Fifty training steps in PyTorch, in f64: three networks, four optimizers.

    python reference/training_torch.py    # writes crates/lastbit/tests/golden/training.json

Weights and the 32 examples come from `formulas.py`. Step t = 0, 1, ... sees the examples
8t, ..., 8t + 7 modulo 32, with learning rate dt of step t, and decay alpha inside the gradient:
g = grad L + alpha theta, for all parameters.

    sgd          theta -= dt g
    heavy-ball   m = mu m + g,  theta -= dt m                   mu = 0.9, m = 0 at first
    nesterov     m = mu m + g,  theta -= dt (g + mu m)
    adam         m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
                 theta -= dt (m/(1 - b1^n)) / (sqrt(v/(1 - b2^n)) + eps),  n = t + 1
                 b1 = 0.9, b2 = 0.999, eps = 1e-8

    constant     dt
    step         dt * 0.1^floor(t/20)
    cosine       dt * (1 + cos(pi t/50))/2

The file holds the loss at each step before its update, the norms of all parameters and running
statistics at the end, and the loss over the 32 examples in evaluation mode then. `growth` says what
another rounding may do: each run is repeated from weights that are off by up to 1e-14, and the
largest change of a loss (`losses`) and of a final tensor relative to its norm (`tensors`) are written
as multiples of 1e-14. A run in which 1e-15 could become 1e-9 is refused.
"""

import math

import torch

import formulas
from engine_torch import GOLDEN, data_by_formula, loss_of, network_by_formula, norm, swish, write
from networks_torch import complete

STEPS, EXAMPLES, BATCH, DECAY, MOMENTUM = 50, 32, 8, 5e-4, 0.9
OFF = 1e-14

NETWORKS = [
    ("resnet8", {"net": "resnet", "depth": 8, "input": [16, 16, 3]}, "cross-entropy"),
    ("cnn", {"net": "cnn", "channels": [8, 12], "act": swish(1.0), "input": [12, 12, 3]}, "cross-entropy"),
    (
        "mlp",
        {"net": "mlp", "hidden": [20, 20], "act": {"name": "tanh"}, "input": [4, 4, 3], "outputs": 3},
        "half-mse",
    ),
]
# Optimizer, schedule, and learning rates of the three networks.
OPTIMIZERS = [
    ("sgd", "constant", {"resnet8": 0.05, "cnn": 0.2, "mlp": 0.2}),
    ("heavy-ball", "step", {"resnet8": 0.02, "cnn": 0.05, "mlp": 0.05}),
    ("nesterov", "cosine", {"resnet8": 0.02, "cnn": 0.05, "mlp": 0.05}),
    ("adam", "constant", {"resnet8": 0.001, "cnn": 0.001, "mlp": 0.001}),
]


def optimizer_of(name, parameters, dt):
    if name == "adam":
        return torch.optim.Adam(parameters, lr=dt, weight_decay=DECAY)
    momentum = 0.0 if name == "sgd" else MOMENTUM
    return torch.optim.SGD(
        parameters, lr=dt, momentum=momentum, nesterov=name == "nesterov", weight_decay=DECAY
    )


def scheduler_of(name, optimizer):
    if name == "step":
        return torch.optim.lr_scheduler.StepLR(optimizer, 20, 0.1)
    if name == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    return torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)


def dt_at(name, dt, t):
    """The closed form of what the scheduler arrives at step by step."""
    return {
        "constant": dt,
        "step": dt * 0.1 ** (t // 20),
        "cosine": dt * (1 + math.cos(math.pi * t / STEPS)) / 2,
    }[name]


def trained(description, kind, optimizer_name, schedule, dt, off):
    """Losses, the network at its end, and its loss in evaluation mode."""
    network = network_by_formula(description)
    with torch.no_grad():
        for t, p in enumerate(network.parameters()):
            p += off * 2 * torch.from_numpy(formulas.direction(t, tuple(p.shape)))
    x, y = data_by_formula(description, EXAMPLES, kind)
    optimizer = optimizer_of(optimizer_name, network.parameters(), dt)
    scheduler = scheduler_of(schedule, optimizer)
    losses = []
    for t in range(STEPS):
        used = optimizer.param_groups[0]["lr"]
        # The recursion of the cosine rounds a few times per step.
        assert abs(used - dt_at(schedule, dt, t)) <= 1e-13 * dt, (schedule, t, used)
        at = torch.arange(BATCH * t, BATCH * (t + 1)) % EXAMPLES
        optimizer.zero_grad()
        loss = loss_of(kind, network(x[at]), y[at])
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    with torch.no_grad():
        evaluation = loss_of(kind, network.eval()(x), y).item()
    return losses, network, evaluation


def floats(named):
    return [(name, x.detach()) for name, x in named if x.is_floating_point()]


def run(name, description, kind, optimizer, schedule, dt):
    settings = complete(description), kind, optimizer, schedule, dt
    losses, network, evaluation = trained(*settings, off=0.0)
    other_losses, other, other_evaluation = trained(*settings, off=OFF)
    pairs = list(zip(floats(network.state_dict().items()), floats(other.state_dict().items())))
    both = zip([*losses, evaluation], [*other_losses, other_evaluation])
    growth = {
        "losses": max(abs(a - b) for a, b in both) / OFF,
        "tensors": max(((a - b).norm() / a.norm()).item() for (_, a), (_, b) in pairs) / OFF,
    }
    print(f"{name}, {optimizer}, {schedule}, dt {dt}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, "
          f"evaluation {evaluation:.4f}, growth {growth}")  # fmt: skip
    assert max(growth.values()) < 1e6, "too sensitive to compare with another implementation"
    return {
        "name": name, "network": settings[0], "loss": kind, "optimizer": optimizer, "schedule": schedule,
        "dt": dt, "decay": DECAY, "losses": losses, "evaluation_loss": evaluation, "growth": growth,
        "parameters": [{"name": n, "norm": norm(p)} for n, p in floats(network.named_parameters())],
        "buffers": [{"name": n, "norm": norm(b)} for n, b in floats(network.named_buffers())],
    }  # fmt: skip


def main():
    runs = []
    for name, description, kind in NETWORKS:
        for optimizer, schedule, dt in OPTIMIZERS:
            runs.append(run(name, description, kind, optimizer, schedule, dt[name]))
    made_by = f"reference/training_torch.py, torch {torch.__version__}"
    head = {"made_by": made_by, "steps": STEPS, "examples": EXAMPLES, "batch": BATCH}
    write(GOLDEN / "training.json", head | {"runs": runs})


if __name__ == "__main__":
    main()
