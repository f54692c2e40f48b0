"""Fingerprints: equal for equal bits, and one flipped bit is found by name."""

import pytest

torch = pytest.importorskip("torch")

import torch_models as models  # noqa: E402
from torch import nn  # noqa: E402

import lastbit.torch  # noqa: E402
from lastbit.torch import fingerprint  # noqa: E402

torch.set_num_threads(1)


def tensors() -> dict[str, torch.Tensor]:
    return {
        "float64": models.data(3, 2),
        "float32": models.data(3, 2, dtype=torch.float32),
        "bfloat16": models.data(5, dtype=torch.bfloat16),
        "float16": models.data(5, dtype=torch.float16),
        "int64": torch.arange(4),
        "uint8": torch.arange(4, dtype=torch.uint8),
        "bool": torch.tensor([True, False, True]),
        "complex": torch.complex(models.data(2), models.data(2, seed=3)),
        "scalar": torch.tensor(2.5),
        "empty": torch.empty(0, 3),
    }


@pytest.mark.parametrize("name", [name for name in tensors() if name != "empty"])
def test_one_flipped_bit_is_found_by_name(name: str) -> None:
    first, second = tensors(), tensors()
    assert fingerprint(first) == fingerprint(second)
    raw = second[name].reshape(-1).view(torch.uint8)
    raw[-1] ^= 1
    assert fingerprint(first).differing(fingerprint(second)) == [name]
    assert fingerprint(first).total != fingerprint(second).total
    raw[-1] ^= 1
    assert fingerprint(first) == fingerprint(second)


def test_signs_of_zero_and_payloads_of_nan_are_bits() -> None:
    zeros = [fingerprint({"x": torch.tensor([value])}).total for value in (0.0, -0.0)]
    assert zeros[0] != zeros[1]
    quiet, payload = (torch.tensor([bits], dtype=torch.int32).view(torch.float32) for bits in (0x7FC00000, 0x7FC00001))
    assert quiet.isnan().all() and payload.isnan().all()
    assert fingerprint({"x": quiet}).total != fingerprint({"x": payload}).total
    assert fingerprint({"x": quiet}).total == fingerprint({"x": quiet.clone()}).total


def test_a_model_is_hashed_with_buffers_and_without_regard_to_strides() -> None:
    model = models.cnn()
    before = fingerprint(model)
    assert set(before.tensors) == set(model.state_dict())
    model(models.data(2, 1, 6, 6, dtype=torch.float32))
    assert fingerprint(model).differing(before) == ["1.running_mean", "1.running_var", "1.num_batches_tracked"]
    matrix = models.data(3, 4)
    assert fingerprint({"x": matrix}) == fingerprint({"x": matrix.T.contiguous().T})


def test_bits_alone_are_hashed() -> None:
    bits = torch.arange(4, dtype=torch.int32)
    hashes = {fingerprint({"x": x}).total for x in (bits, bits.view(torch.float32), bits.view(2, 2))}
    assert len(hashes) == 1
    assert fingerprint({"x": bits.long()}).total not in hashes


def test_names_that_only_one_has() -> None:
    one, two = fingerprint({"a": torch.ones(1), "b": torch.ones(1)}), fingerprint({"a": torch.ones(1), "c": torch.ones(1)})
    assert one.differing(two) == ["b", "c"]
    assert fingerprint({}).tensors == {}


def test_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match=r"model: found list, expected a torch\.nn\.Module or tensors by name"):
        fingerprint([torch.ones(1)])


def test_a_compiled_model_has_the_names_of_its_original() -> None:
    model = nn.Linear(2, 2)
    assert fingerprint(torch.compile(model, backend="eager")) == fingerprint(model)
