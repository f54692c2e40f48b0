"""Every function on every kind of model: ResNet-18, ViT, GPT, LSTM, dropout and batch norm, tied and frozen weights,
bfloat16, and under torch.compile."""

import copy
import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch_models as models  # noqa: E402
from torch import nn  # noqa: E402

from lastbit.torch import critical_lr, fingerprint, growth, perturb  # noqa: E402

torch.set_num_threads(1)

every_model = pytest.mark.parametrize("name", models.ZOO)
HALF = "bfloat16"


def sgd(model: nn.Module, **options: Any) -> torch.optim.SGD:
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], **options)


def trained(name: str, k: float | None) -> models.Case:
    case = models.ZOO[name](torch.float32)
    optimizer = sgd(case.model, lr=0.3, momentum=0.9, weight_decay=0.01)
    if k is not None:
        perturb(optimizer, k=k)
    for n in range(5):
        torch.manual_seed(n)
        optimizer.zero_grad()
        case.loss(case.model, case.batch).backward()
        optimizer.step()
    return case


@every_model
def test_perturbed_copies_diverge_and_powers_of_two_do_not(name: str) -> None:
    plain, same, other = (fingerprint(trained(name, k).model) for k in (None, 4, 3))
    assert same == plain
    assert other != plain


@every_model
def test_the_critical_learning_rate_is_where_a_real_step_begins_to_raise_the_loss(name: str) -> None:
    case = models.ZOO[name](torch.float64)
    optimizer = sgd(case.model, lr=0.01)
    before = models.everything(case.model, optimizer)
    if name == HALF:
        with pytest.raises(ValueError, match="model: found parameters in half precision, expected float32 or float64"):
            critical_lr(case.model, case.loss, case.batch, optimizer)
        assert models.everything(case.model, optimizer) == before
        return
    found = critical_lr(case.model, case.loss, case.batch, optimizer)
    assert models.everything(case.model, optimizer) == before
    assert found.reason is None

    def after_a_step(lr: float) -> float:
        model = models.without_dropout(copy.deepcopy(getattr(case.model, "_orig_mod", case.model)))
        step = sgd(model, lr=lr)
        case.loss(model, case.batch).backward()
        step.step()
        return case.loss(model, case.batch).item()

    # Along the line of the update instead of by a step: other roundings, 1e-16 of parameters and loss each.
    assert after_a_step(found.lower) <= found.loss * (1 + 1e-12)
    assert after_a_step(found.upper) >= found.loss * (1 - 1e-12)
    assert found.upper / found.lower <= 1.02


@every_model
def test_growth_gives_a_verdict_and_restores_everything(name: str) -> None:
    case = models.ZOO[name](torch.float32)
    optimizer = sgd(case.model, lr=0.01, momentum=0.5)
    before = models.everything(case.model, optimizer)
    if name == HALF:
        with pytest.raises(ValueError, match=r"model: found parameters of torch\.bfloat16, expected float32 or float64"):
            growth(case.model, case.loss, case.batch, optimizer, steps=64)
    else:
        found = growth(case.model, case.loss, case.batch, optimizer, steps=64)
        assert found.verdict in ("stable", "restrained", "undecided")
        assert math.isfinite(found.growth_per_step)
    assert models.everything(case.model, optimizer) == before


@every_model
def test_a_changed_bit_is_found_by_name(name: str) -> None:
    first, second = (models.ZOO[name](torch.float32).model for _ in range(2))
    original = getattr(second, "_orig_mod", second)
    before = fingerprint(first)
    assert fingerprint(second) == before
    assert set(before.tensors) == set(original.state_dict())
    *_, (changed, parameter) = original.named_parameters()
    with torch.no_grad():
        parameter.view(-1)[0].copy_(torch.nextafter(parameter.view(-1)[0], parameter.new_tensor(9.0)))
    # A tied parameter has several names.
    names = [key for key, value in original.state_dict(keep_vars=True).items() if value is parameter]
    assert changed in names
    assert fingerprint(second).differing(before) == names
