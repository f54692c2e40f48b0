"""``lastbit.diff``: the command's numbers, and every kind of tensor."""

import numpy as np
import pytest

import lastbit


def pair():
    generator = np.random.default_rng(0)
    a = {"w": generator.normal(size=(3, 4)).astype(np.float32), "b": generator.normal(size=4), "n": np.arange(5)}
    b = {**a, "w": np.nextafter(a["w"], np.float32(np.inf))}
    return a, b


def test_one_ulp_is_found_and_measured():
    a, b = pair()
    result = lastbit.diff(a, b)
    assert not result.identical and result.verdict == "1 of 3 tensors differ"
    row = result.tensors[0]
    assert (row["name"], row["status"], row["max_ulps"], row["median_ulps"]) == ("w", "different", 1, 1)
    x, y = a["w"].astype(float), b["w"].astype(float)
    # A mean of 12 quotients, each rounded a few times in f64.
    assert row["rel_l1"] == pytest.approx(2 * np.mean(np.abs(x - y) / (np.abs(x) + np.abs(y))), rel=1e-12)
    assert row["max_difference"] == np.abs(x - y).max()
    assert tuple(row["max_difference_at"]) == np.unravel_index(np.abs(x - y).argmax(), x.shape)
    assert lastbit.diff(a, a).identical
    assert "1 of 3 tensors differ" in str(result) and "max ulps" in str(result)


def test_the_numbers_are_those_of_the_command(tmp_path, command):
    save_file = pytest.importorskip("safetensors.numpy").save_file
    a, b = pair()
    save_file(a, tmp_path / "a.safetensors")
    save_file(b, tmp_path / "b.safetensors")
    told = command("diff", "a.safetensors", "b.safetensors")
    found = lastbit.diff(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    assert found.total == told["total"]
    assert (found.hash_a, found.hash_b) == (told["a"]["hash"], told["b"]["hash"])
    in_memory = {row["name"]: row for row in lastbit.diff(a, b).tensors}
    for row, other in zip(found.tensors, told["tensors"]):
        assert row == in_memory[row["name"]]
        assert {name: row[name] for name in other["numbers"]} == other["numbers"]


def test_only_and_tensors_that_are_not_compared():
    a, b = pair()
    assert lastbit.diff(a, b, only="[bn]").identical
    with pytest.raises(lastbit.InputError, match="only: found x, expected a pattern that fits a tensor"):
        lastbit.diff(a, b, only="x")
    status = {row["name"]: row["status"] for row in lastbit.diff({"x": a["w"], "y": a["b"]}, {"x": a["w"].T}).tensors}
    assert status == {"x": "other-shape", "y": "only-in-a"}


def test_values_of_all_types_and_layouts():
    for dtype in ("float16", "int8", "uint16", "uint64", "bool", ">f4", ">f8"):
        x = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
        assert lastbit.diff({"x": x, "0": x[0, 0]}, {"x": np.asfortranarray(x), "0": x[0, 0]}).identical
        assert not lastbit.diff({"x": x}, {"x": x[:, ::-1]}).identical
    nan = lastbit.diff({"x": np.array([1.0, np.nan])}, {"x": np.array([1.0, 2.0])})
    assert nan.total["not_comparable"] == 1 and nan.tensors[0]["max_ulps"] is None
    with pytest.raises(lastbit.InputError, match="found the type complex128"):
        lastbit.diff({"x": np.array([1j])}, {})
    with pytest.raises(lastbit.InputError, match="a: found int"):
        lastbit.diff(3, {})


def test_pytorch_tensors_also_in_bf16():
    torch = pytest.importorskip("torch")
    x = torch.linspace(1, 2, 7, requires_grad=True)
    assert lastbit.diff({"x": x}, {"x": x.detach().numpy()}).identical
    rounded = {"x": x.to(torch.bfloat16)}
    result = lastbit.diff({"x": x}, rounded)
    assert (result.tensors[0]["dtype_b"], result.tensors[0]["ulps_of"]) == ("BF16", "BF16")
    # Rounding to 8 significant bits moves a value by half an ulp at most.
    assert result.total["max_ulps"] == 0 and result.total["rel_l1"] <= 2.0**-8
    assert lastbit.diff(rounded, {"x": x.to(torch.bfloat16).clone()}).identical
