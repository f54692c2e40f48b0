"""Growth of a perturbed copy: closed forms, and nothing left changed."""

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch_models as models  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from lastbit.torch import growth, perturb  # noqa: E402

torch.set_num_threads(1)


def parabola(model: nn.Module, curvature: Tensor) -> Tensor:
    return curvature * model.weight.square().sum() / 2


def line() -> nn.Module:
    model = nn.Linear(1, 1, bias=False).double()
    with torch.no_grad():
        model.weight.fill_(0.7)
    return model


@pytest.mark.parametrize("lr", [0.1, 0.25, 0.6])
def test_a_difference_shrinks_by_one_minus_lr_lambda(lr: float) -> None:
    model, curvature = line(), torch.tensor(3.0, dtype=torch.float64)
    found = growth(model, parabola, curvature, torch.optim.SGD(model.parameters(), lr=lr))
    assert found.verdict == "stable"
    # The map is linear: what remains is the rounding of the differences, 1e-8 of the copy's distance in float64.
    assert found.growth_per_step == pytest.approx(math.log(abs(1 - lr * 3)), abs=1e-6)


def test_above_two_over_lambda_it_diverges() -> None:
    model = line()
    found = growth(model, parabola, torch.tensor(3.0), torch.optim.SGD(model.parameters(), lr=0.75))
    assert found.verdict == "diverged"
    # |1 - 0.75 · 3| = 1.25; beyond a million times the scale of 1 from 0.7 after ln(1e6 / 0.7)/ln(1.25) = 64 steps.
    assert 60 <= found.diverged_at <= 68


def test_heavy_ball_shrinks_by_the_larger_root() -> None:
    model, mu, lr, curvature = line(), 0.5, 0.05, 2.0
    found = growth(
        model, parabola, torch.tensor(curvature), torch.optim.SGD(model.parameters(), lr=lr, momentum=mu), steps=400
    )
    # z² - (1 + mu - lr lambda) z + mu = 0 has two real roots here.
    b = 1 + mu - lr * curvature
    root = (b + math.sqrt(b * b - 4 * mu)) / 2 if b * b > 4 * mu else math.sqrt(mu)
    assert found.verdict == "stable"
    # Complex roots turn: the mean over 200 steps is off by the logarithm of one turn's swing, at most 3, over 200.
    assert found.growth_per_step == pytest.approx(math.log(root), abs=0.015)


@pytest.mark.parametrize("kind", ["momentum", "nesterov", "adam", "adamw", "rmsprop"])
def test_a_network_is_measured_and_everything_is_restored(kind: str) -> None:
    torch.manual_seed(3)
    model = models.cnn().float()
    batches = [(models.data(5, 1, 6, 6, seed=n, dtype=torch.float32), models.labels(5, 3, seed=n)) for n in range(2)]
    optimizer: torch.optim.Optimizer = {
        "momentum": lambda: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        "nesterov": lambda: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True),
        "adam": lambda: torch.optim.Adam(model.parameters(), lr=0.003),
        "adamw": lambda: torch.optim.AdamW(model.parameters(), lr=0.003),
        "rmsprop": lambda: torch.optim.RMSprop(model.parameters(), lr=0.001),
    }[kind]()
    for trained in range(2):
        before = models.everything(model, optimizer)
        found = growth(model, nn.CrossEntropyLoss(), batches, optimizer, steps=64)
        assert models.everything(model, optimizer) == before
        assert found.verdict in ("stable", "restrained", "undecided")
        assert math.isfinite(found.growth_per_step)
        if not trained:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(batches[0][0]), batches[0][1]).backward()
            optimizer.step()


def test_dropout_has_the_same_random_numbers_for_run_and_copy_and_others_at_each_step() -> None:
    """A linear map with random factors: a difference is multiplied by 1 - lr mask, the same for run and copy."""
    model = line()
    masks: list[float] = []

    def loss(m: nn.Module, curvature: Tensor) -> Tensor:
        mask = nn.functional.dropout(torch.ones(1, dtype=torch.float64), 0.5)
        masks.append(mask.item())
        return parabola(m, curvature * mask.squeeze())

    torch.manual_seed(5)
    found = growth(model, loss, torch.tensor(1.0, dtype=torch.float64), torch.optim.SGD(model.parameters(), lr=0.1), steps=64)
    # The first step of a new optimizer comes before; SGD without momentum keeps no state.
    pairs = masks[len(masks) - 2 * found.steps :]
    assert set(pairs) == {0.0, 2.0}
    assert found.verdict == "stable"
    # Half of the steps multiply by 1 - 0.2; a copy with other random numbers would not shrink to rounding.
    rate = math.log(0.8) / 2
    assert found.growth_per_step == pytest.approx(rate, abs=0.08)


def test_everything_is_restored_when_the_loss_raises() -> None:
    torch.manual_seed(3)
    model = models.cnn().float()
    batch = (models.data(5, 1, 6, 6, dtype=torch.float32), models.labels(5, 3))
    optimizer = torch.optim.Adam(model.parameters())
    perturbation = perturb(optimizer)
    before = models.everything(model, optimizer)
    calls = 0
    error = KeyError("from loss_fn")

    def loss(m: nn.Module, batch: Any) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == 7:
            raise error
        return nn.functional.cross_entropy(m(batch[0]), batch[1])

    with pytest.raises(KeyError) as caught:
        growth(model, loss, batch, optimizer)
    assert caught.value is error
    assert models.everything(model, optimizer) == before
    assert perturbation.steps == 0


def test_bad_arguments() -> None:
    model = models.mlp()
    batch = (models.data(5, 3, dtype=torch.float32), models.labels(5, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    with pytest.raises(ValueError, match="steps: found 0, expected at least 1"):
        growth(model, criterion, batch, optimizer, steps=0)
    with pytest.raises(ValueError, match="optimizer: found none of the model's parameters"):
        growth(model, criterion, batch, torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1))
    with pytest.raises(TypeError, match="optimizer: found str, expected a torch.optim.Optimizer"):
        growth(model, criterion, batch, "sgd")
    with pytest.raises(TypeError, match="model: found str, expected a torch.nn.Module"):
        growth("model", criterion, batch, optimizer)
    with pytest.raises(ValueError, match="batches: found none"):
        growth(model, criterion, [], optimizer)
    half = models.mlp().bfloat16()
    with pytest.raises(ValueError, match="model: found parameters of torch.bfloat16, expected float32 or float64"):
        growth(half, criterion, batch, torch.optim.SGD(half.parameters(), lr=0.1))
    with pytest.raises(ValueError, match="loss_fn: found a loss that does not depend on the parameters"):
        growth(model, lambda m, b: torch.zeros(()), batch, optimizer)
