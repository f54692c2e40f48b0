"""Critical learning rate against closed forms on quadratics."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch_models as models  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from lastbit.torch import critical_lr, perturb  # noqa: E402

torch.set_num_threads(1)


class Quadratic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.x = nn.Parameter(models.data(4, seed=7))
        root = models.data(4, 4, seed=9)
        self.hessian = root @ root.T


def quadratic_loss(model: nn.Module, _: Any) -> Tensor:
    return model.x @ model.hessian @ model.x / 2


def closed_form(model: nn.Module, direction: np.ndarray) -> float:
    """The factor t at which L(x - t d) = L(x): 2 g·d / (d·H d)."""
    x, h = model.x.detach().numpy(), model.hessian.numpy()
    return float(2 * (h @ x) @ direction / (direction @ h @ direction))


@pytest.mark.parametrize("lr", [1e-4, 0.1, 30.0])
def test_gradient_descent(lr: float) -> None:
    model = Quadratic()
    found = critical_lr(model, quadratic_loss, torch.zeros(1), torch.optim.SGD(model.parameters(), lr=lr))
    expected = closed_form(model, model.hessian.numpy() @ model.x.detach().numpy())
    # 1e-9: rounding of the loss, whose slope at the root is as steep as at the start.
    assert found.lower * (1 - 1e-9) <= expected <= found.upper * (1 + 1e-9)
    assert found.upper / found.lower <= 1.02
    assert found.reason is None
    assert found.lr == lr
    assert found.ratio == pytest.approx(lr / expected, rel=0.02)


def test_along_an_eigenvector_it_is_two_over_lambda() -> None:
    model = Quadratic()
    values, vectors = np.linalg.eigh(model.hessian.numpy())
    with torch.no_grad():
        model.x.copy_(torch.from_numpy(vectors[:, -1]))
    found = critical_lr(model, quadratic_loss, torch.zeros(1), torch.optim.SGD(model.parameters(), lr=0.01), tolerance=1e-4)
    assert found.critical_lr == pytest.approx(2 / values[-1], rel=1e-4)


def test_adam_moves_along_its_own_direction() -> None:
    model = Quadratic()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    # The first step of Adam is lr g / (|g| + eps).
    gradient = model.hessian.numpy() @ model.x.detach().numpy()
    expected = closed_form(model, gradient / (np.abs(gradient) + 1e-8))
    found = critical_lr(model, quadratic_loss, torch.zeros(1), optimizer)
    assert found.lower * (1 - 1e-9) <= expected <= found.upper * (1 + 1e-9)
    assert found.reason is None
    assert not optimizer.state


def test_momentum_that_points_uphill() -> None:
    model = Quadratic()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    gradient = model.hessian @ model.x.detach()
    optimizer.state[model.x]["momentum_buffer"] = -10 * gradient
    found = critical_lr(model, quadratic_loss, torch.zeros(1), optimizer)
    assert (found.lower, found.upper, found.critical_lr) == (0.0, 0.0, 0.0)
    assert "does not point downhill" in str(found.reason)


def test_a_loss_without_a_minimum_has_no_critical_learning_rate() -> None:
    model = nn.Linear(2, 1).double()
    found = critical_lr(model, lambda m, x: m(x).mean(), models.data(3, 2), torch.optim.SGD(model.parameters(), lr=0.1))
    assert found.upper == float("inf")
    assert "no step up to" in str(found.reason)
    assert np.isnan(found.critical_lr)


def trained(kind: str) -> tuple[nn.Module, torch.optim.Optimizer, Any]:
    torch.manual_seed(3)
    model = models.cnn().float()
    batch = (models.data(5, 1, 6, 6, dtype=torch.float32), models.labels(5, 3))
    optimizer: torch.optim.Optimizer = {
        "momentum": lambda: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        "adamw": lambda: torch.optim.AdamW(model.parameters(), lr=0.01),
        "rmsprop": lambda: torch.optim.RMSprop(model.parameters(), lr=0.01),
        "fresh": lambda: torch.optim.Adam(model.parameters(), lr=0.01),
    }[kind]()
    for _ in range(0 if kind == "fresh" else 3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
        optimizer.step()
    return model, optimizer, batch


@pytest.mark.parametrize("kind", ["momentum", "adamw", "rmsprop", "fresh"])
def test_everything_is_restored(kind: str) -> None:
    model, optimizer, batch = trained(kind)
    before = models.everything(model, optimizer)
    storages = [p.data_ptr() for p in model.parameters()]
    found = critical_lr(model, nn.CrossEntropyLoss(), batch, optimizer)
    assert found.evaluations > 0
    assert models.everything(model, optimizer) == before
    assert [p.data_ptr() for p in model.parameters()] == storages


@pytest.mark.parametrize("fails_at", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", ["momentum", "adamw", "fresh"])
def test_everything_is_restored_when_the_loss_raises(kind: str, fails_at: int) -> None:
    model, optimizer, batch = trained(kind)
    before = models.everything(model, optimizer)
    calls = 0
    error = KeyError("from loss_fn")

    def loss(m: nn.Module, batch: Any) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == fails_at:
            raise error
        return nn.functional.cross_entropy(m(batch[0]), batch[1])

    with pytest.raises(KeyError) as caught:
        critical_lr(model, loss, batch, optimizer)
    assert caught.value is error
    assert calls == fails_at
    assert models.everything(model, optimizer) == before


def test_a_perturbed_optimizer_continues_its_draws() -> None:
    model, optimizer, batch = trained("momentum")
    perturbation = perturb(optimizer, "ulp")
    critical_lr(model, nn.CrossEntropyLoss(), batch, optimizer)
    assert perturbation.steps == 0


def test_bad_arguments() -> None:
    model, optimizer, batch = trained("fresh")
    with pytest.raises(ValueError, match="tolerance: found 0, expected"):
        critical_lr(model, nn.CrossEntropyLoss(), batch, optimizer, tolerance=0)
    other = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
    with pytest.raises(ValueError, match="optimizer: found none of the model's parameters"):
        critical_lr(model, nn.CrossEntropyLoss(), batch, other)
    with pytest.raises(TypeError, match="optimizer: found str, expected a torch.optim.Optimizer"):
        critical_lr(model, nn.CrossEntropyLoss(), batch, "sgd")
    with pytest.raises(ValueError, match="model: found parameters in half precision"):
        critical_lr(models.mlp().bfloat16(), nn.CrossEntropyLoss(), batch, optimizer)
