"""``lastbit.pde``: the command's bits, closed forms, arrays in and out."""

import threading
import time

import numpy as np
import pytest

import lastbit


def test_the_bits_are_those_of_the_command(tmp_path, command):
    profile = np.random.default_rng(0).normal(size=20)
    np.save(tmp_path / "profile.npy", profile)
    image = np.random.default_rng(1).normal(size=(6, 8))
    np.save(tmp_path / "image.npy", image)
    pde = lastbit.pde
    for arguments, found in [
        (["heat"], pde.heat()),
        (["heat", "--dt", "0.6", "--ends", "periodic", "--precision", "f32", "--steps", "100", "--initial", "profile.npy"],
         pde.heat(profile, dt=0.6, ends="periodic", precision="f32", steps=100)),
        (["beltrami", "--steps", "300"], pde.beltrami(steps=300)),
        (["beltrami", "--signal", "image.npy", "--overdrive", "3", "--lambda", "0.5", "--steps", "100"],
         pde.beltrami(image, overdrive=3, lambda_=0.5, steps=100)),
        (["scheme", "advection-lax-wendroff", "--dt", "0.9", "--steps", "100"],
         pde.scheme("advection-lax-wendroff", dt=0.9, steps=100)),
        (["kernel", "--size", "16x16", "--kernel", "4x4", "--steps", "100"],
         pde.kernel(size=16, kernel=4, steps=100)),
        (["kernel", "--image", "image.npy", "--kernel", "2x3", "--equation", "linear", "--mu", "0.9", "--steps", "100"],
         pde.kernel(image, (2, 3), equation="linear", mu=0.9, steps=100)),
    ]:  # fmt: skip
        told = command("pde", *arguments)
        verdict = told["verdict"]
        assert (found.hash, found.verdict, found.steps) == (told["hash"], verdict["kind"], verdict["steps"])
        assert found.growth_per_step == verdict["growth_per_step"]
        assert found.numbers == told["numbers"]
        assert found.curves["step"].tolist() == told["series"]["step"]
        if found.twin:
            assert found.twin["rel_l1"].tolist() == told["series"]["twin"]["rel_l1"]
        own = {name: value for name, value in found.settings.items() if name not in ("initial", "signal", "image")}
        assert {name: told["settings"][name] for name in own} == own


def test_a_fourier_mode_of_the_heat_equation_is_multiplied_by_its_factor():
    points, mode, dt, kappa = 32, 5, 0.2, 1.5
    x = np.arange(points)
    initial = np.cos(2 * np.pi * (mode * x % points) / points)
    run = lastbit.pde.heat(initial, dt=dt, kappa=kappa, ends="periodic", steps=64, times=[0, dt, 10 * dt])
    factor = 1 - 4 * kappa * dt * np.sin(np.pi * mode / points) ** 2
    for step in (0, 1, 10):
        # In units of 2^-53: three roundings of an angle below 2 pi move the initial values by 19, and other modes have
        # factors of size 1 at most; a step adds up to 8, from a sum of size 4 times r = 0.3, r itself and the new value.
        atol = (2 * 19 + 8 * step) * 2.0**-53
        np.testing.assert_allclose(run.snapshots[step], factor**step * initial, rtol=0, atol=atol)
    assert run.x is not None and run.x.tolist() == x.tolist()


@pytest.mark.parametrize("r", [0.4999, 0.5001])
def test_the_heat_equation_is_stable_below_one_half(r):
    dx, kappa = 0.1, 2.0
    # The highest frequency of a periodic mesh of an even number of points, which is amplified beyond 1/2.
    run = lastbit.pde.heat(np.tile([1.0, -1.0], 8), dt=r * dx**2 / kappa, dx=dx, kappa=kappa, ends="periodic", steps=500)
    assert run.verdict == ("stable" if r < 0.5 else "diverged")
    assert run.dt_max == pytest.approx(dx**2 / (2 * kappa), rel=1e-15)
    assert run.numbers["r"] == pytest.approx(r, rel=1e-14)


def test_arrays_of_any_layout_and_type_and_files_give_the_same_bits(tmp_path):
    image = np.arange(48, dtype=np.float32).reshape(6, 8) % 7
    np.save(tmp_path / "image.npy", image)
    expected = lastbit.pde.beltrami(tmp_path / "image.npy", steps=64)
    for signal in (image, np.asfortranarray(image), image.astype(int), image.tolist(), image[::-1][::-1]):
        found = lastbit.pde.beltrami(signal, steps=64)
        assert (found.hash, found.settings["signal-hash"]) == (expected.hash, expected.settings["signal-hash"])
    assert found.settings["signal"] == "in memory"
    (first, last) = found.snapshots.values()
    assert first.shape == last.shape == (6, 8) and last.flags.c_contiguous and last.dtype == np.float64


def test_a_state_can_be_carried_on():
    whole = lastbit.pde.beltrami(np.linspace(0, 1, 12) ** 2, dt=1e-3, steps=64, snapshots=[0, 32, 64])
    assert list(whole.snapshots) == [0, 32, 64]
    # Without the data term nothing but the state counts.
    start = np.linspace(0, 1, 12) ** 2
    whole = lastbit.pde.beltrami(start, dt=1e-3, lambda_=0, steps=128, snapshots=[64, 128])
    again = lastbit.pde.beltrami(whole.snapshots[64], dt=1e-3, lambda_=0, steps=64, snapshots=[64])
    np.testing.assert_array_equal(again.snapshots[64], whole.snapshots[128])


def test_sharp_bounds_of_beltrami():
    for dimensions, size in [(1, None), (2, (8, 8))]:
        run = lastbit.pde.beltrami(overdrive=0.5, delta=0.02, lambda_=0.3, dx=2, steps=64, dimensions=dimensions,
                                   **({} if size is None else {"size": size}))  # fmt: skip
        exact = 2 / (0.3 + 4 * dimensions / (0.02 * 2**2))
        assert run.dt_max == pytest.approx(exact, rel=1e-14) and run.dt == pytest.approx(exact / 2, rel=1e-14)


def test_the_network_has_a_loss_a_sharpness_and_regimes():
    run = lastbit.pde.kernel(size=16, kernel=5, steps=100, sharpness_every=20)
    assert run.regimes is not None and run.regimes.shape == (12, 12) and set(np.unique(run.regimes)) <= {-1, 0, 1}
    assert run.sharpness["step"].tolist() == [0, 20, 40, 60, 80, 100]
    # The normalized sharpness is lambda_max over its limit 2/dt, times 2.
    np.testing.assert_allclose(run.sharpness["normalized"], run.sharpness["lambda_max"] * run.dt, rtol=1e-14)
    assert list(run.snapshots) == [96, 97, 98, 99, 100] and run.snapshots[100].shape == (5, 5)
    assert run.x is None and run.twin == {}


def test_a_record_is_written_and_read_back(tmp_path):
    in_memory = lastbit.pde.beltrami(dimensions=2, size=(8, 8), steps=64)
    assert in_memory.folder is None
    for _ in range(2):
        run = lastbit.pde.beltrami(dimensions=2, size=(8, 8), steps=64, out=tmp_path)
        assert run.folder is not None and (run.folder / "record.json").exists()
        assert (run.hash, run.numbers, run.settings) == (in_memory.hash, in_memory.numbers, in_memory.settings)
        for name, curve in in_memory.curves.items():
            np.testing.assert_array_equal(run.curves[name], curve)
        for step, state in in_memory.snapshots.items():
            np.testing.assert_array_equal(run.snapshots[step], state)
    written = (run.folder / "record.json").stat().st_mtime_ns
    lastbit.pde.beltrami(dimensions=2, size=(8, 8), steps=64, out=tmp_path, fresh=True)
    assert (run.folder / "record.json").stat().st_mtime_ns > written


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.heat(dt=-1), "dt: found -1, expected a number greater than 0"),
        (lambda p: p.heat(dt=float("inf")), "dt: found inf, expected a number"),
        (lambda p: p.heat(steps=2.5), "steps: found 2.5, expected a whole number from 0 on"),
        (lambda p: p.heat(ends="open"), "ends: found open, expected one of dirichlet, neumann, periodic"),
        (lambda p: p.heat([1, 2]), "initial: found 2 values, expected at least 3"),
        (lambda p: p.heat([1, 2, np.nan]), "initial: found NaN at position 2"),
        (lambda p: p.heat(np.zeros((3, 3))), "initial: found an array of shape (3, 3), expected one dimension"),
        (lambda p: p.heat([1.0, 2.0, 3.0], points=9), "points: found it with initial"),
        (lambda p: p.heat(times=[1e9]), "times: found 1000000000, expected times from 0 to steps x dt = 800"),
        (lambda p: p.heat([1e20, 0, 0], precision="f32"), "initial: found the value 1e20, expected values up to 1e18"),
        (lambda p: p.beltrami(dt=0.1, overdrive=2), "dt and overdrive: found 2, expected either"),
        (lambda p: p.beltrami(lambda_=-1), "lambda_: found -1"),
        (lambda p: p.beltrami([1.0, 2.0], noise=0.3), "noise: found it with signal"),
        (lambda p: p.beltrami("signal.txt"), "signal.txt: found another kind of file"),
        (lambda p: p.beltrami(np.zeros((2, 2, 3))), "signal: found an array of shape (2, 2, 3), expected one dimension or two"),
        (lambda p: p.scheme("heat-2d", initial=[1.0, 2.0, 3.0]), "initial: found a line, expected data of 2 dimensions"),
        (lambda p: p.scheme("heat-crank-nicolson"), "expected an explicit scheme"),
        (lambda p: p.kernel(a=1.0), "a: found it with equation non-linear"),
        (lambda p: p.kernel(size=8, kernel=3, initial=np.zeros((2, 2))), "initial: found 2 x 2 values, expected 3 x 3"),
        (lambda p: p.kernel(snapshots=[5000]), "snapshots: found 5000"),
    ],
)
def test_wrong_arguments_are_refused_with_their_name(call, message):
    with pytest.raises(lastbit.InputError) as refused:
        call(lastbit.pde)
    assert message in str(refused.value)


def test_other_python_threads_run_meanwhile_and_progress_is_told():
    counts, done = [0], threading.Event()

    def count():
        while not done.wait(0.001):
            counts[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    seen: list[lastbit.Progress] = []
    before, started = counts[0], time.monotonic()
    try:
        lastbit.pde.beltrami(dimensions=2, size=64, steps=2000, progress=seen.append)
    finally:
        seconds, during = time.monotonic() - started, counts[0] - before
        done.set()
        thread.join()
    # A thousand a second if nothing holds it up; with the GIL held it would be none.
    assert during > 20 * seconds, (during, seconds)
    assert seen and seen[-1].label == "pde-beltrami" and seen[-1].total >= 2000


def test_an_exception_of_the_progress_function_ends_the_run():
    def stop(progress):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        lastbit.pde.beltrami(dimensions=2, size=64, steps=1_000_000, progress=stop)


def test_a_result_can_be_read():
    run = lastbit.pde.heat(dt=0.6, steps=200)
    assert str(run).startswith("dt = 0.6: diverged: unbounded") and "closed form: 0.5" in str(run)
    assert run.diverged_at in run.snapshots and run.reason is None
    assert "diverged" in run._repr_html_() and run.to_dict()["curves"]["step"] is run.curves["step"]
