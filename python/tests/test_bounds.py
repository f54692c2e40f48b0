"""``lastbit.bounds``: the command's numbers, and closed forms."""

import math

import numpy as np
import pytest

import lastbit

TERMS = {
    "dimensions": 1,
    "term": [
        {"level": 0, "offset": [-1], "coefficient": [0, 1]},
        {"level": 0, "offset": [0], "coefficient": [1, -2]},
        {"level": 0, "offset": [1], "coefficient": [0, 1]},
    ],
}

TOML = """
dimensions = 1
term = [
  { level = 0, offset = [-1], coefficient = [0, 1] },
  { level = 0, offset = [0], coefficient = [1, -2] },
  { level = 0, offset = [1], coefficient = [0, 1] },
]
"""


def test_the_numbers_of_a_scheme_are_those_of_the_command(command):
    told = command("bounds", "scheme", "advection-diffusion-2d", "--kappa", "0.1", "--speed-y", "0.2", "--dt", "0.3")
    found = lastbit.bounds.scheme("advection-diffusion-2d", kappa=0.1, speed_y=0.2, dt=0.3)
    assert found.settings == told["settings"]
    assert found.details == {name: value for name, value in told.items() if name != "amplification"}
    assert (found.dt_max, found.kind) == (told["stable_dt"]["dt"], told["stable_dt"]["kind"])
    curve = told["amplification"]
    assert found.amplification.ravel().tolist() == curve["amplification"]
    assert found.omega[..., 0].ravel().tolist() == curve["omega"]
    assert found.omega[..., 1].ravel().tolist() == curve["omega_2"]
    # Frequencies 0 to pi in 64 intervals, by -pi to pi in 128.
    assert found.amplification.shape == (65, 129) and found.omega.shape == (65, 129, 2)


# The amplification factors stand in every textbook; with c = dt/dx.
@pytest.mark.parametrize(
    ("scheme", "dt_max", "symbol"),
    [
        ("heat", 0.5, lambda c, w: 1 - 4 * c * np.sin(w / 2) ** 2),
        ("advection-upwind", 1.0, lambda c, w: 1 - c + c * np.exp(-1j * w)),
        ("advection-lax-friedrichs", 1.0, lambda c, w: np.cos(w) - 1j * c * np.sin(w)),
        ("advection-lax-wendroff", 1.0, lambda c, w: 1 - 1j * c * np.sin(w) - c**2 * (1 - np.cos(w))),
        ("heat-crank-nicolson", math.inf, lambda c, w: (1 - 2 * c * np.sin(w / 2) ** 2) / (1 + 2 * c * np.sin(w / 2) ** 2)),
        ("advection-ftcs", 0.0, lambda c, w: 1 - 1j * c * np.sin(w)),
    ],
)
def test_stable_steps_and_amplification_are_the_closed_forms(scheme, dt_max, symbol):
    found = lastbit.bounds.scheme(scheme, dt=0.7)
    assert found.dt_max is not None
    # An edge is located to about twelve digits.
    assert found.dt_max == pytest.approx(dt_max, rel=1e-11)
    # A handful of operations on numbers of size 1.
    np.testing.assert_allclose(found.amplification, np.abs(symbol(0.7, found.omega)), rtol=1e-13, atol=1e-13)
    assert found.stable is (0.7 <= dt_max)


def test_an_edge_is_a_bracket_of_floats():
    heat = lastbit.bounds.scheme("heat", dx=0.5, kappa=2.0)
    (interval,) = heat.intervals
    exact = 0.5**2 / (2 * 2.0)
    assert interval["low"] == 0.0 and interval["low_unstable"] is None
    assert interval["high"] <= exact <= interval["high_unstable"]
    assert heat.dt == heat.dt_max == interval["high"] and heat.stable is True
    assert str(heat) == heat.sentence and heat.sentence.startswith("heat: stable for dt up to 0.0625.")
    # |1 + dt - dt^2| <= 1 from 1 to 2.
    inner = lastbit.bounds.scheme({"dimensions": 1, "term": [{"level": 0, "offset": [0], "coefficient": [1, 1, -1]}]})
    (interval,) = inner.intervals
    assert (inner.kind, inner.dt_max) == ("intervals", None)
    assert interval["low_unstable"] <= 1 <= interval["low"] < interval["high"] <= 2 <= interval["high_unstable"]
    always = lastbit.bounds.scheme("heat-bdf2")
    assert [row["high"] for row in always.intervals] == [math.inf] and always.dt_max == math.inf


def test_a_scheme_of_ones_own_is_a_dictionary_or_a_file(tmp_path):
    (tmp_path / "scheme.toml").write_text(TOML)
    expected = lastbit.bounds.scheme("heat")
    for own in (TERMS, str(tmp_path / "scheme.toml"), tmp_path / "scheme.toml"):
        found = lastbit.bounds.scheme(own)
        assert (found.intervals, found.dt_max) == (expected.intervals, expected.dt_max)
        np.testing.assert_array_equal(found.amplification, expected.amplification)


def test_the_numbers_of_a_kernel_are_those_of_the_command(tmp_path, command):
    image = np.random.default_rng(0).normal(size=(12, 10))
    np.save(tmp_path / "image.npy", image)
    told = command("bounds", "kernel", "--image", "image.npy", "--kernel", "3x4", "--alpha", "5", "--dt", "0.1")
    for data in (image, tmp_path / "image.npy", np.asfortranarray(image)):
        found = lastbit.bounds.kernel(data, (3, 4), alpha=5, dt=0.1)
        for name in ("alpha_min", "alpha_max", "empty", "dt_max", "a", "image_hash"):
            assert getattr(found, name) == told[name], name
        assert found.windowed.to_dict() == told["windowed"]
        exact = found.schemes[2]
        assert exact["alpha_max"] == told["nesterov"]["alpha_max_exact"]
        assert exact["windowed_alpha_max"] == told["nesterov"]["windowed_alpha_max"]
    assert lastbit.bounds.kernel().settings == command("bounds", "kernel")["settings"]


@pytest.mark.parametrize(("n", "w"), [(16, 3), (32, 7), (33, 5)])
def test_the_largest_eigenvalue_of_a_checkerboard(n, w):
    found = lastbit.bounds.kernel(size=n, kernel=w, alpha=50.0, dt=0.01)
    exact = w**2 * (n - w + 1) ** 2
    # One mode of that size; matrix-vector products lose a few digits of sixteen.
    assert found.windowed.eig_max == pytest.approx(exact, rel=1e-12)
    # With a = -1/2 and mean pooling the modes have the curvature alpha - eig/(4 positions).
    q = -0.25 / (n - w + 1) ** 2
    assert found.windowed.alpha_min == pytest.approx(-q * exact, rel=1e-12)
    checkerboard = (-1.0) ** np.add.outer(np.arange(n), np.arange(n))
    power = np.abs(np.fft.fft2(checkerboard)).max() ** 2
    assert found.alpha_min == pytest.approx(-q * power, rel=1e-12)
    assert found.windowed.dt_max == pytest.approx(2 / 50.0, rel=1e-12)


def test_the_amplification_of_an_image_is_that_of_numpys_transform():
    image = np.random.default_rng(1).normal(size=(8, 16))
    found = lastbit.bounds.kernel(image, 3, alpha=2.0, dt=0.1, pooling="sum")
    # q = a beta/2 with a = -1/2.
    expected = 1 - 0.1 * (2.0 - 0.25 * np.abs(np.fft.fft2(image)) ** 2)
    rows = found.amplification.shape[0]
    # Rows 0 to pi, columns from -pi on: the half of the frequencies that a real image needs.
    shifted = np.fft.fftshift(expected, axes=1)[:rows]
    columns = found.amplification[:, : shifted.shape[1]]
    np.testing.assert_allclose(columns, shifted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: b.scheme("heet"), "scheme: found heet, expected one of heat, heat-2d"),
        (lambda b: b.scheme("heat", mu=0.5), "mu: found it with the scheme heat"),
        (lambda b: b.scheme("heat", dt=float("nan")), "dt: found nan, expected a number"),
        (lambda b: b.scheme("heat", dx=-1), "dx: found -1, expected a number greater than 0"),
        (lambda b: b.scheme("reaction-diffusion", lambda_=-1), "lambda_: found -1"),
        (lambda b: b.scheme("heat", dx="wide"), "dx: found wide, expected a number"),
        (lambda b: b.scheme({"dimensions": 1}), "scheme: not a valid configuration: missing field `term`"),
        (lambda b: b.scheme({"dimensions": 3, "term": []}), "scheme: found"),
        (lambda b: b.kernel(np.zeros(3)), "image: found an array of shape (3,), expected two dimensions"),
        (lambda b: b.kernel(np.full((9, 9), np.nan), 3), "image: found NaN at position 0"),
        (lambda b: b.kernel(np.zeros((4, 4)), 5), "kernel: found 5x5, expected from 1x1 to 4x4, the size of image"),
        (lambda b: b.kernel(kernel=(1, 2, 3)), "kernel: found (1, 2, 3), expected rows and columns"),
        (lambda b: b.kernel(activation="relu"), "activation: found relu, expected swish"),
        (lambda b: b.kernel(pooling="max"), "pooling: found max, expected sum or mean"),
        (lambda b: b.kernel({}), "image: found dict, expected real numbers or the path of a file"),
        (lambda b: b.kernel(np.ones((4, 4), complex)), "image: found the type complex128, expected real numbers"),
    ],
)
def test_wrong_arguments_are_refused_with_their_name(call, message):
    with pytest.raises(lastbit.InputError) as refused:
        call(lastbit.bounds)
    assert message in str(refused.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(lastbit.LastbitError, match="missing.toml: cannot be read"):
        lastbit.bounds.scheme(tmp_path / "missing.toml")
