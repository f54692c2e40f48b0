"""Bad input: one clear exception each, and nothing left changed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch_models as models  # noqa: E402
from torch import Tensor, nn  # noqa: E402

import lastbit.torch  # noqa: E402
from lastbit.torch import NotDeterministicError, sharpness  # noqa: E402

torch.set_num_threads(1)

X, Y = models.data(5, 1, 6, 6, dtype=torch.float32), models.labels(5, 3)
CRITERION = nn.CrossEntropyLoss()


def network() -> nn.Module:
    torch.manual_seed(0)
    model = models.cnn()
    CRITERION(model(X), Y).backward()
    return model


def refused(model: nn.Module, error: type[Exception], message: str, *args: Any, **kwargs: Any) -> None:
    before = models.everything(model)
    with pytest.raises(error) as caught:
        sharpness(model, *args, **kwargs)
    text = str(caught.value)
    assert text.startswith(message), text
    assert "expected" in text, text
    assert models.everything(model) == before


def test_parameters_on_two_devices() -> None:
    model = network()
    model[6] = nn.Linear(12, 3, device="meta")
    refused(model, ValueError, "model: found parameters on cpu", CRITERION, (X, Y))


def test_no_parameter_that_needs_a_gradient() -> None:
    frozen = network().requires_grad_(False)
    refused(frozen, ValueError, "model: found no parameter that requires a gradient", CRITERION, (X, Y))
    refused(nn.Tanh(), ValueError, "model: found no parameter that requires a gradient", CRITERION, (X, Y))


@pytest.mark.parametrize("check", [True, False])
def test_a_loss_that_is_nan(check: bool) -> None:
    message = "loss_fn: found a loss of nan"
    refused(network(), ValueError, message, CRITERION, (torch.full_like(X, float("nan")), Y), check=check)
    broken = network()
    with torch.no_grad():
        broken[6].weight[0, 0] = float("nan")
    refused(broken, ValueError, message, CRITERION, (X, Y), check=check)


def test_no_batches() -> None:
    refused(network(), ValueError, "batches: found none", CRITERION, [])
    used_up = iter([(X, Y)])
    next(used_up)
    refused(network(), ValueError, "batches: found none", CRITERION, used_up)
    empty = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X[:0], Y[:0]))
    refused(network(), ValueError, "batches: found none", CRITERION, empty)
    refused(network(), ValueError, "batches: found no example", CRITERION, (X[:0], Y[:0]))


LOSSES: dict[str, tuple[type[Exception], str, Callable[[nn.Module, Any], Any]]] = {
    "not a scalar": (TypeError, "loss_fn: found a tensor of shape (5, 3)", lambda m, b: m(b[0])),
    "a number": (TypeError, "loss_fn: found float", lambda m, b: CRITERION(m(b[0]), b[1]).item()),
    "None": (TypeError, "loss_fn: found NoneType", lambda m, b: None),
    "detached": (ValueError, "loss_fn: found a loss that does not depend", lambda m, b: CRITERION(m(b[0]), b[1]).detach()),
    "no_grad": (
        ValueError,
        "loss_fn: found a loss that does not depend",
        torch.no_grad()(lambda m, b: CRITERION(m(b[0]), b[1])),
    ),
}


@pytest.mark.parametrize("case", LOSSES)
@pytest.mark.parametrize("check", [True, False])
def test_losses_of_the_wrong_kind(case: str, check: bool) -> None:
    error, message, loss = LOSSES[case]
    refused(network(), error, message, loss, (X, Y), check=check)


def test_something_that_is_no_loss() -> None:
    refused(network(), TypeError, "loss_fn: found str", "cross entropy", (X, Y))


def test_something_that_is_no_model() -> None:
    for found in ("resnet", nn.Linear, lambda x: x):
        with pytest.raises(TypeError, match=r"model: found \w+, expected a torch\.nn\.Module"):
            sharpness(found, CRITERION, (X, Y))


def test_a_criterion_with_batches_that_are_no_pairs() -> None:
    for batch in (X, {"x": X, "y": Y}, (X, Y, Y), [X, Y, Y], [X, Y]):
        refused(network(), TypeError, "batches: found a batch of type", CRITERION, batch)


def test_optimizers() -> None:
    model = network()
    cases: list[tuple[type[Exception], str, Any]] = [
        (ValueError, "optimizer: found none of the model's parameters", torch.optim.SGD(network().parameters(), lr=0.1)),
        (ValueError, "optimizer: found Adam before its first step", torch.optim.Adam(model.parameters())),
        (ValueError, "optimizer: found AdamW before its first step", torch.optim.AdamW(model.parameters())),
        (ValueError, "optimizer: found RMSprop, expected one of SGD, Adam, AdamW", torch.optim.RMSprop(model.parameters())),
        (ValueError, "optimizer: found maximize=True", torch.optim.SGD(model.parameters(), lr=0.1, maximize=True)),
        (TypeError, "optimizer: found str", "sgd"),
    ]
    for error, message, optimizer in cases:
        refused(model, error, message, CRITERION, (X, Y), optimizer=optimizer)


def test_a_weight_decay_that_is_unstable_by_itself() -> None:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, weight_decay=2.0)
    optimizer.step()
    refused(model, ValueError, "optimizer: found a learning rate of 1.0 with a weight", CRITERION, (X, Y), optimizer=optimizer)


def test_a_dampening_of_1_takes_the_gradient_out_of_the_step() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=1.0)
    assert sharpness(model, CRITERION, (X, Y), optimizer=optimizer).edge_ratio == 0.0


def test_a_loss_with_noise_from_numpy() -> None:
    def noisy(model: nn.Module, batch: Any) -> Tensor:
        noise = torch.from_numpy(generator.normal(size=batch[0].shape)).float()
        return CRITERION(model(batch[0] + noise), batch[1])

    generator = np.random.default_rng(0)
    refused(network(), NotDeterministicError, "model or loss_fn: two gradients", noisy, (X, Y))


def test_a_start_of_another_model() -> None:
    small = nn.Linear(2, 2)
    start = sharpness(small, nn.MSELoss(), (torch.ones(1, 2), torch.zeros(1, 2)))
    refused(network(), ValueError, "start: found a measurement of 6 parameters", CRITERION, (X, Y), start=start)
    refused(network(), TypeError, "start: found float", CRITERION, (X, Y), start=3.0)


@pytest.mark.parametrize(
    ("message", "kwargs"),
    [
        ("k: found 0", {"k": 0}),
        ("tolerance: found 0", {"tolerance": 0}),
        ("tolerance: found 1e-09", {"tolerance": 1e-9}),
        ("tolerance: found nan", {"tolerance": float("nan")}),
        ("max_hvps: found 0", {"max_hvps": 0}),
        ("params: found 'head.*'", {"params": ["head.*"]}),
        ("params: found no parameter", {"params": lambda name: False}),
        ("params: found no parameter", {"params": []}),
    ],
)
def test_numbers_and_names(message: str, kwargs: dict[str, Any]) -> None:
    refused(network(), ValueError, message, CRITERION, (X, Y), **kwargs)


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_an_exception_of_the_loss_is_that_very_exception(fails_at: int) -> None:
    model = network()
    before = models.everything(model)

    class Custom(Exception):
        pass

    for error in (Custom("mine"), RuntimeError("mine"), NotImplementedError("is not implemented"), KeyboardInterrupt()):
        calls = 0

        def loss(m: nn.Module, batch: Any, error: BaseException = error) -> Tensor:
            nonlocal calls
            calls += 1
            if calls == fails_at:
                raise error
            return CRITERION(m(batch[0]), batch[1])

        with pytest.raises(type(error)) as caught:
            sharpness(model, loss, (X, Y))
        assert caught.value is error
        assert calls == fails_at
        assert models.everything(model) == before


def test_a_module_of_parameters_in_two_precisions() -> None:
    model = network()
    model[6].double()
    refused(model, ValueError, "model: found parameters of torch.float32", CRITERION, (X, Y))


def test_results_print_and_convert() -> None:
    found = lastbit.torch.sharpness(network(), CRITERION, (X, Y), layers=True)
    assert "vectors" not in found.to_dict()
    assert found.to_dict()["layers"][0]["name"] == "0"
    assert "sharpness" in str(found) and "<table>" in found._repr_html_()
