"""Edge ratio against the dense linear map of one step of the real optimizer.

On a quadratic a step of an optimizer is an affine map of parameters and memory. Its matrix is read off column by column
from ``torch.optim`` itself; for Adam the second moment is held, as the theory does. Scaled to an edge ratio of 1, the
learning rates must put the spectral radius at 1, by an eigenvalue of -1.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

torch = pytest.importorskip("torch")

import torch_models as models  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.optim import Optimizer  # noqa: E402

import lastbit.torch  # noqa: E402

torch.set_num_threads(1)

#: Found eigenvalue of the map against -1. The edge ratio is wrong by about the square of its tolerance of 1e-7, and a
#: simple eigenvalue moves in proportion; the map is read off in float64 by differences of an affine map (1e-13).
NEAR = 1e-6
#: Learning rates moved by this much must be seen on the right side of the edge: a hundred times NEAR.
ASIDE = 1e-4


class Quadratic(nn.Module):
    """Two parameters of 3 and 2 entries and a dense, positive definite Hessian."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(models.data(3, seed=7))
        self.b = nn.Parameter(models.data(2, seed=8))
        root = models.data(5, 5, seed=9)
        self.hessian = root @ root.T + 0.3 * torch.eye(5, dtype=torch.float64)


def loss_fn(model: nn.Module, _: Any) -> Tensor:
    x = torch.cat([model.a, model.b])
    return x @ model.hessian @ x / 2


def two_groups(model: nn.Module, **second: Any) -> list[dict[str, Any]]:
    return [{"params": [model.a]}, {"params": [model.b], **second}]


SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
OPTIMIZERS: dict[str, Callable[[nn.Module], Optimizer]] = {
    "sgd": lambda m: SGD(m.parameters(), lr=0.01),
    "sgd, decay": lambda m: SGD(m.parameters(), lr=0.01, weight_decay=0.7),
    "sgd, two groups": lambda m: SGD(two_groups(m, lr=0.03, weight_decay=0.9), lr=0.01),
    "momentum": lambda m: SGD(m.parameters(), lr=0.01, momentum=0.9),
    "momentum, decay": lambda m: SGD(m.parameters(), lr=0.01, momentum=0.8, weight_decay=0.7),
    "momentum, dampening": lambda m: SGD(m.parameters(), lr=0.01, momentum=0.9, dampening=0.4, weight_decay=0.2),
    "momentum, two groups": lambda m: SGD(two_groups(m, lr=0.04, momentum=0.5, dampening=0.2), lr=0.01, momentum=0.9),
    "nesterov": lambda m: SGD(m.parameters(), lr=0.01, momentum=0.9, nesterov=True),
    "nesterov, decay": lambda m: SGD(m.parameters(), lr=0.01, momentum=0.6, nesterov=True, weight_decay=0.5),
    "sgd and nesterov": lambda m: SGD(two_groups(m, lr=0.02, momentum=0.9, nesterov=True), lr=0.01),
    "dampening without momentum": lambda m: SGD(m.parameters(), lr=0.01, dampening=0.5),
    "adam": lambda m: ADAM(m.parameters(), lr=0.01),
    "adam, decay": lambda m: ADAM(m.parameters(), lr=0.01, weight_decay=0.6, betas=(0.8, 0.99)),
    "adam, amsgrad": lambda m: ADAM(m.parameters(), lr=0.01, amsgrad=True),
    "adam, eps": lambda m: ADAM(m.parameters(), lr=0.01, eps=0.3),
    "adam, no momentum": lambda m: ADAM(m.parameters(), lr=0.01, betas=(0.0, 0.99)),
    "adam, two groups": lambda m: ADAM(two_groups(m, lr=0.05, betas=(0.5, 0.9), weight_decay=0.3), lr=0.01),
    "adamw": lambda m: ADAMW(m.parameters(), lr=0.01, weight_decay=0.4),
    "adamw, two groups": lambda m: ADAMW(two_groups(m, lr=0.03, weight_decay=0.1), lr=0.01, weight_decay=0.5),
}
MEMORY = {SGD: "momentum_buffer", ADAM: "exp_avg", ADAMW: "exp_avg"}


def make_steps(model: nn.Module, optimizer: Optimizer, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        loss_fn(model, None).backward()
        optimizer.step()


def step_matrix(model: nn.Module, optimizer: Optimizer) -> npt.NDArray[np.float64]:
    """Matrix of one step, parameters and first moments, from the optimizer itself.

    Adam: before each step its counter is put back, and its second moment so that the step leaves it at its held value
    for the gradient at hand. The next step corrects its biases with counter + 1; with the counter put back by one, it
    uses those of the state that was measured.
    """
    params = [p for group in optimizer.param_groups for p in group["params"]]
    groups = [group for group in optimizer.param_groups for _ in group["params"]]
    key = MEMORY[type(optimizer)]
    memories = [optimizer.state[p].get(key) for p in params]
    with_memory = any(memory is not None for memory in memories)
    sizes = [p.numel() for p in params]
    held = [{name: optimizer.state[p][name].clone() for name in optimizer.state[p] if name != key} for p in params]

    def step(x: Tensor) -> Tensor:
        with torch.no_grad():
            pieces = x.split(sizes * (2 if with_memory else 1))
            for p, piece in zip(params, pieces, strict=False):
                p.copy_(piece)
            for memory, piece in zip(memories, pieces[len(params) :], strict=False):
                if memory is not None:
                    memory.copy_(piece)
        optimizer.zero_grad()
        loss_fn(model, None).backward()
        with torch.no_grad():
            for p, group, values in zip(params, groups, held, strict=True):
                if "exp_avg_sq" not in values:
                    continue
                gradient, beta2 = p.grad, group["betas"][1]
                if type(optimizer) is ADAM and group["weight_decay"]:
                    gradient = gradient + group["weight_decay"] * p
                state = optimizer.state[p]
                state["step"].copy_(values["step"] - 1)
                state["exp_avg_sq"].copy_((values["exp_avg_sq"] - (1 - beta2) * gradient**2) / beta2)
                if "max_exp_avg_sq" in values:
                    state["max_exp_avg_sq"].copy_(values["max_exp_avg_sq"])
        optimizer.step()
        parts = [p.detach() for p in params]
        if with_memory:
            parts += [torch.zeros_like(p) if m is None else m for p, m in zip(params, memories, strict=True)]
        return torch.cat(parts).clone()

    n = sum(sizes) * (2 if with_memory else 1)
    zero = step(torch.zeros(n, dtype=torch.float64))
    columns = [step(column) - zero for column in torch.eye(n, dtype=torch.float64)]
    for p, values in zip(params, held, strict=True):
        for name, value in values.items():
            optimizer.state[p][name].copy_(value)
    return torch.stack(columns, dim=1).numpy()


def scale_learning_rates(optimizer: Optimizer, rates: list[float], factor: float) -> None:
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate * factor


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_at_edge_ratio_1_the_step_has_spectral_radius_1(name: str) -> None:
    model = Quadratic()
    optimizer = OPTIMIZERS[name](model)
    make_steps(model, optimizer, 4)
    theta = [p.detach().clone() for p in model.parameters()]
    rates = [group["lr"] for group in optimizer.param_groups]

    def edge_ratio() -> float:
        with torch.no_grad():
            for p, value in zip(model.parameters(), theta, strict=True):
                p.copy_(value)
        found = lastbit.torch.sharpness(model, loss_fn, torch.zeros(1), optimizer=optimizer, tolerance=1e-7)
        assert found.converged
        return found.edge_ratio

    # The ratio is proportional to the learning rates, but for decoupled decay: then a few rounds are needed.
    factor = 1.0
    for _ in range(60):
        scale_learning_rates(optimizer, rates, factor)
        ratio = edge_ratio()
        if abs(ratio - 1) < 1e-13:
            break
        factor /= ratio
    assert ratio == pytest.approx(1, abs=1e-12)

    def spectrum(scaled: float) -> npt.NDArray[np.complex128]:
        scale_learning_rates(optimizer, rates, factor * scaled)
        return np.linalg.eigvals(step_matrix(model, optimizer))

    at, below, above = spectrum(1), spectrum(1 - ASIDE), spectrum(1 + ASIDE)
    # The eigenvalue next to -1 is simple: it moves linearly.
    assert np.abs(at + 1).min() < NEAR
    assert np.abs(at).max() == pytest.approx(1, abs=NEAR)
    assert np.abs(below).max() < 1
    assert np.abs(above).max() > 1


def test_the_map_read_off_is_that_of_heavy_ball() -> None:
    """The test's own matrix, where it is known."""
    model = Quadratic()
    optimizer = SGD(model.parameters(), lr=0.01, momentum=0.9)
    make_steps(model, optimizer, 2)
    h, eye = model.hessian.numpy(), np.eye(5)
    expected = np.block([[eye - 0.01 * h, -0.009 * eye], [h, 0.9 * eye]])
    assert np.abs(step_matrix(model, optimizer) - expected).max() < 1e-13


def test_parameters_outside_the_optimizer_do_not_move() -> None:
    model = Quadratic()
    optimizer = SGD([model.a], lr=0.1)
    found = lastbit.torch.sharpness(model, loss_fn, torch.zeros(1), optimizer=optimizer, tolerance=1e-7)
    block = np.linalg.eigvalsh(model.hessian.numpy()[:3, :3])[-1]
    # Error of an eigenvalue: the square of the tolerance over the gap.
    assert found.edge_ratio == pytest.approx(0.1 * block / 2, rel=1e-9)
    assert found.sharpness == pytest.approx(np.linalg.eigvalsh(model.hessian.numpy())[-1], rel=1e-9)
    assert any("not in the optimizer" in note for note in found.notes)


def test_a_tensor_learning_rate_is_read() -> None:
    model = Quadratic()
    by_number = SGD(model.parameters(), lr=0.1)
    by_tensor = SGD(model.parameters(), lr=torch.tensor(0.1, dtype=torch.float64))
    first, second = (lastbit.torch.sharpness(model, loss_fn, torch.zeros(1), optimizer=o) for o in (by_number, by_tensor))
    assert first.edge_ratio == second.edge_ratio


def test_warm_starts_are_cheap_and_agree_with_cold_searches() -> None:
    model = models.double(models.mlp())
    x, y = models.data(8, 3), models.labels(8, 2)
    criterion = nn.CrossEntropyLoss()
    optimizer = ADAM(model.parameters(), lr=1e-3)
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
    found, counts = None, []
    for _ in range(30):
        cold = lastbit.torch.sharpness(model, criterion, (x, y))
        found = lastbit.torch.sharpness(model, criterion, (x, y), start=found)
        counts.append(found.hvps)
        # Both are within the tolerance of 1e-3; an eigenvalue is wrong by its square over the gap, at most 1e-5 here.
        assert found.sharpness == pytest.approx(cold.sharpness, rel=1e-5)
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    warm = counts[1:]
    assert max(warm) <= 10, counts
    assert np.median(warm) <= 6, counts
    assert counts[0] > np.median(warm)


def test_a_warm_start_also_serves_the_edge_ratio() -> None:
    model = models.double(models.mlp())
    x, y = models.data(8, 3), models.labels(8, 2)
    criterion = nn.CrossEntropyLoss()
    optimizer = ADAM(model.parameters(), lr=1e-4)
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
    first = lastbit.torch.sharpness(model, criterion, (x, y), optimizer=optimizer)
    again = lastbit.torch.sharpness(model, criterion, (x, y), optimizer=optimizer, start=first)
    assert again.hvps < first.hvps
    assert again.edge_ratio == pytest.approx(first.edge_ratio, rel=1e-5)
