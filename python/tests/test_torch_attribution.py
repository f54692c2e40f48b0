"""Growth by cause: closed forms, dense linear algebra, and parts that add up."""

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch_models as models  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from lastbit.torch import Attribution, growth  # noqa: E402
from lastbit.torch._attribution import CAUSES  # noqa: E402

torch.set_num_threads(1)


class Point(nn.Module):
    """Parameters without a network."""

    def __init__(self, *values: float) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.tensor(values, dtype=torch.float64))


def quadratic(model: nn.Module, curvatures: Tensor) -> Tensor:
    return 0.5 * (curvatures * model.x.square()).sum()


def attributed(model: nn.Module, loss: Any, batches: Any, optimizer: torch.optim.Optimizer, **options: int) -> Attribution:
    options = {"steps": 64, "attribute_every": 4} | options
    found = growth(model, loss, batches, optimizer, **options)
    assert found.attribution is not None
    return found.attribution


def assert_adds_up(found: Attribution) -> None:
    assert found.rows
    for row in found.rows:
        # The parts add up by construction of "kinks", in other coordinates than e-folds: some roundings of the largest.
        size = max(abs(row[cause]) for cause in CAUSES)
        assert sum(row[cause] for cause in CAUSES) == pytest.approx(row["growth"], abs=1e-14 * max(size, 1.0))


def test_a_step_of_three_over_the_curvature_is_all_overshoot() -> None:
    model = Point(0.5, 0.2)
    found = attributed(model, quadratic, torch.tensor([3.0, 3.0]).double(), torch.optim.SGD(model.parameters(), lr=1.0), steps=32)
    assert_adds_up(found)
    assert found.shares == {"overshoot": 1.0}
    # |1 - 3| = 2; states of size 2^32 round by 1e-16 of that, over a distance of 1e-8 of the first state's size.
    assert found.rows[0]["growth"] == pytest.approx(math.log(2), abs=1e-6)


def test_a_saddle_is_all_negative_curvature() -> None:
    lr = 0.1
    model = Point(0.0, 0.0)
    curvatures = torch.tensor([-1.0, -1.0], dtype=torch.float64)
    found = attributed(model, quadratic, curvatures, torch.optim.SGD(model.parameters(), lr=lr))
    assert_adds_up(found)
    assert found.shares == {"negative_curvature": 1.0}
    assert found.growth == pytest.approx(math.log1p(lr), abs=1e-8)


def test_gradient_jumps_are_kinks() -> None:
    """|x| has no curvature: once the two are on different sides of 0 the step moves them apart by 2 lr."""
    model = Point(0.0)
    found = attributed(model, lambda m, _: m.x.abs().sum(), torch.zeros(1), torch.optim.SGD(model.parameters(), lr=1e-3))
    assert_adds_up(found)
    for row in found.rows:
        assert row["growth"] == pytest.approx(row["kinks"], abs=1e-14)


def test_decoupled_weight_decay_contracts() -> None:
    """AdamW on a loss without gradient: each step multiplies by 1 - lr wd."""
    lr, decay = 0.1, 0.5
    model = Point(0.7, -0.4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=decay)
    found = attributed(model, lambda m, _: (0 * m.x).sum(), torch.zeros(1), optimizer)
    assert_adds_up(found)
    # Adam's moments are 0 and stay so.
    assert found.growth == pytest.approx(math.log(1 - lr * decay), abs=1e-7)
    assert found.shares == {} and found.parts["contraction"] == pytest.approx(found.growth, abs=1e-7)


MIXED = (3.0, 0.5, -0.3, 0.01)


def mode(optimizer: torch.optim.Optimizer, curvature: float) -> np.ndarray:
    """The step of (δθ, δ buffer) along one mode, from the formulas of torch.optim.SGD."""
    group = optimizer.param_groups[0]
    lr, mu, h = group["lr"], group["momentum"], curvature + group["weight_decay"]
    # buffer' = mu buffer + (1 - dampening) g;   θ' = θ - lr (g + mu buffer' | buffer' | g)
    buffer = np.array([(1 - group["dampening"]) * h, mu])
    gradient = np.array([h, 0.0])
    direction = gradient + mu * buffer if group["nesterov"] else buffer if mu else gradient
    return np.array([np.array([1.0, 0.0]) - lr * direction, buffer if mu else [0.0, 0.0]])


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 0.9},
        {"lr": 0.9, "weight_decay": 0.1},
        {"lr": 0.7, "momentum": 0.5},
        {"lr": 1.05, "momentum": 0.3},
        {"lr": 0.9, "momentum": 0.5, "dampening": 0.25, "weight_decay": 0.1},
        {"lr": 0.6, "momentum": 0.5, "nesterov": True},
    ],
)
def test_linear_steps_grow_as_their_matrices_do(options: dict[str, Any]) -> None:
    """Growth and its kinks on a quadratic: |M z|/|z| of the dense step in the documented norm, and no kinks."""
    model = Point(0.5, -0.3, 0.2, 0.4)
    optimizer = torch.optim.SGD(model.parameters(), **options)
    found = attributed(model, quadratic, torch.tensor(MIXED, dtype=torch.float64), optimizer, steps=24, attribute_every=1)
    assert_adds_up(found)
    matrices = [mode(optimizer, curvature) for curvature in MIXED]
    radius = [max(abs(np.linalg.eigvals(matrix))) for matrix in matrices]
    # The most unstable mode takes over: the next one is smaller by (1.40/1.67)^24 and (1.32/1.47)^24, squared 6e-3.
    assert found.rows[-1]["growth"] == pytest.approx(math.log(max(radius)), abs=0.02)
    expected = "overshoot" if max(radius) == radius[0] else "negative_curvature"
    assert found.rows[-1]["cause"] == expected
    for row in found.rows:
        # A linear step has none; states grow to 1e9 times the distance of 1e-8 and round by 1e-16 of that.
        assert abs(row["kinks"]) <= max(row["rounding"], 1e-9)


def test_growth_is_that_of_the_exact_differential() -> None:
    """Adam on a smooth network: (|J d|/|d|)² - 1 with J by automatic differentiation of the whole step."""
    torch.manual_seed(1)
    model = models.double(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), 4)
    batch = (models.data(6, 3), models.labels(6, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.1)
    found = attributed(model, nn.CrossEntropyLoss(), batch, optimizer, steps=12, attribute_every=1, nodes=64)
    assert_adds_up(found)
    for row in found.rows[2:]:
        # What no linearization sees is of the order of the distance (1e-10 of the parameters), divided by roots of v
        # that may be small: 1e-4 is far below the parts and far above that.
        assert abs(row["kinks"]) < 1e-4 * max(abs(row[cause]) for cause in CAUSES)
        assert row["preconditioner"] != 0


def test_learning_rates_of_groups_enter_the_coordinates() -> None:
    """Two parameters, one quadratic each: the group beyond its edge overshoots, the other contracts."""
    model = Point(0.5)
    model.y = nn.Parameter(torch.tensor([0.3], dtype=torch.float64))
    optimizer = torch.optim.SGD([{"params": [model.x], "lr": 0.1}, {"params": [model.y], "lr": 1.5}])
    loss = lambda m, _: 0.5 * 2 * (m.x.square() + m.y.square()).sum()  # noqa: E731
    found = attributed(model, loss, torch.zeros(1), optimizer, steps=16, attribute_every=1)
    assert_adds_up(found)
    assert list(found.shares) == ["overshoot"]
    # 1 - 1.5 · 2 = -2.
    assert found.rows[-1]["growth"] == pytest.approx(math.log(2), abs=1e-5)


def test_kinks_are_those_at_the_distance_of_the_precision() -> None:
    """A copy perturbed at the level of float32 has kinks of ReLU between it and the run; one of float64 hardly any."""
    kinks = {}
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(10, 50), nn.ReLU(), nn.Linear(50, 3)).to(dtype)
        batch = (torch.randn(100, 10).to(dtype), torch.randint(0, 3, (100,)))
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5)
        found = growth(model, nn.CrossEntropyLoss(), batch, optimizer, steps=100, attribute_every=5)
        assert_adds_up(found.attribution)
        kinks[dtype] = found.attribution.parts["kinks"]
        if dtype == torch.float32:
            # The verdict is of every step of the second half, the attribution of every fifth: 3 standard errors.
            assert abs(found.attribution.growth - found.growth_per_step) < 3 * found.standard_error
    # A perturbation of 2e-4 of each parameter beside one of 1e-8: the share of units between whose signs a step falls is
    # that of the distances.
    assert kinks[torch.float32] > 0.1 > 100 * abs(kinks[torch.float64])


@pytest.mark.parametrize("kind", ["sgd", "momentum", "nesterov", "adam", "adamw"])
def test_a_network_with_dropout_in_single_precision_is_attributed_and_restored(kind: str) -> None:
    torch.manual_seed(3)
    model = nn.Sequential(models.cnn().float(), nn.Dropout(0.3), nn.Linear(3, 3))
    batches = [(models.data(5, 1, 6, 6, seed=n, dtype=torch.float32), models.labels(5, 3, seed=n)) for n in range(2)]
    optimizer: torch.optim.Optimizer = {
        "sgd": lambda: torch.optim.SGD(model.parameters(), lr=0.05),
        "momentum": lambda: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        "nesterov": lambda: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True),
        "adam": lambda: torch.optim.Adam(model.parameters(), lr=0.003),
        "adamw": lambda: torch.optim.AdamW(model.parameters(), lr=0.003),
    }[kind]()
    before = models.everything(model, optimizer)
    found = attributed(model, nn.CrossEntropyLoss(), batches, optimizer, steps=64, attribute_every=16, nodes=8)
    assert models.everything(model, optimizer) == before
    assert_adds_up(found)
    assert [row["step"] for row in found.rows] == [16, 32, 48, 64]
    assert found.hvps == 4 * (8 + (kind in ("adam", "adamw")))


def test_parameters_outside_of_the_loss_are_left_out() -> None:
    model = Point(0.5)
    model.unused = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    found = attributed(model, quadratic, torch.tensor([1.0]).double(), torch.optim.Adam(model.parameters()))
    assert found.notes == ["1 parameters that the loss does not depend on were left out"]


def test_what_is_not_defined_is_refused() -> None:
    model = models.mlp()
    batch = (models.data(5, 3, dtype=torch.float32), models.labels(5, 2))
    cases = {
        "found RMSprop, expected SGD, Adam or AdamW": torch.optim.RMSprop(model.parameters()),
        "found amsgrad=True": torch.optim.Adam(model.parameters(), amsgrad=True),
        "found a learning rate of 0": torch.optim.SGD(model.parameters(), lr=0.0),
        "different momentum": torch.optim.SGD(
            [{"params": [p], "momentum": 0.1 * n} for n, p in enumerate(model.parameters())], lr=0.1
        ),
    }
    for message, optimizer in cases.items():
        with pytest.raises(ValueError, match=message):
            growth(model, nn.CrossEntropyLoss(), batch, optimizer, attribute_every=5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="attribute_every: found 0, expected a number from 1 to the 200 steps"):
        growth(model, nn.CrossEntropyLoss(), batch, optimizer, attribute_every=0)
    with pytest.raises(ValueError, match="nodes: found 1, expected at least 4"):
        growth(model, nn.CrossEntropyLoss(), batch, optimizer, attribute_every=5, nodes=1)
