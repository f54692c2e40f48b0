"""``lastbit.noise``: the command's numbers, scipy's p-values, every way to pass a table."""

from pathlib import Path

import numpy as np
import pytest

import lastbit

BASE = [93.3, 93.37, 93.47, 93.04, 93.21, 93.18, 93.4]
NEW = [93.9, 93.72, 93.81, 93.6, 93.85, 93.66, 93.9]
GROUPS = {"base": dict(enumerate(BASE)), "new": dict(enumerate(NEW))}


def write(path: Path) -> None:
    rows = [f"{name},{seed},{value}" for name, runs in GROUPS.items() for seed, value in runs.items()]
    path.write_text("\n".join(["group,seed,value", *rows]) + "\n")


def test_the_numbers_are_those_of_the_command(tmp_path, command):
    write(tmp_path / "results.csv")
    told = command("noise", "--from", "results.csv", "--gain", "0.2")
    found = lastbit.noise(GROUPS, gain=0.2)
    assert found.groups == told["groups"]
    assert found.comparisons == told["comparisons"]
    assert (found.significant, found.verdict) == (told["verdict"]["significant"], told["verdict"]["sentences"])
    assert lastbit.noise(tmp_path / "results.csv", gain=0.2) == found


def test_p_values_and_intervals_are_those_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    paired = lastbit.noise(GROUPS).comparisons[0]
    test = stats.ttest_rel(NEW, BASE)
    interval = test.confidence_interval(0.95)
    # Both evaluate the same formulas in f64; the incomplete beta function is good to about 1e-12.
    assert paired["p_t"] == pytest.approx(test.pvalue, rel=1e-10)
    assert paired["gain_interval"] == pytest.approx([interval.low, interval.high], rel=1e-10)
    flips = stats.permutation_test(
        (NEW, BASE), lambda x, y, axis: np.mean(x - y, axis=axis), permutation_type="samples", n_resamples=np.inf
    )
    assert paired["p"] == flips.pvalue
    unpaired = lastbit.noise(GROUPS, unpaired=True).comparisons[0]
    assert unpaired["p_t"] == pytest.approx(stats.ttest_ind(NEW, BASE, equal_var=False).pvalue, rel=1e-10)
    sigma = lastbit.noise(GROUPS).groups[0]["sigma"]
    assert sigma == pytest.approx(np.std(BASE, ddof=1), rel=1e-12)


def test_every_kind_of_table_gives_the_same_result():
    expected = lastbit.noise(GROUPS)
    columns = {
        "group": ["base"] * len(BASE) + ["new"] * len(NEW),
        "seed": [*range(len(BASE)), *range(len(NEW))],
        "value": BASE + NEW,
    }
    assert lastbit.noise(columns) == expected
    assert lastbit.noise({name: np.array(column) for name, column in columns.items()}) == expected
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    assert lastbit.noise(pandas.DataFrame(columns)) == expected
    assert lastbit.noise(polars.DataFrame(columns)) == expected
    # Values without seeds are not paired.
    assert lastbit.noise({"base": BASE, "new": NEW}) == lastbit.noise(columns | {"seed": range(14)})


def test_tables_of_the_result_are_data_frames():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    result = lastbit.noise(GROUPS, gain=0.2)
    for frame in (pandas.DataFrame(result.groups), polars.DataFrame(result.groups)):
        assert list(frame["group"]) == ["base", "new"]
    for frame in (pandas.DataFrame(result.comparisons), polars.DataFrame(result.comparisons)):
        assert list(frame["gain"]) == [result.comparisons[0]["gain"]]


def test_a_result_can_be_read_and_is_a_dictionary():
    result = lastbit.noise(GROUPS)
    assert "new" in str(result) and result.verdict[0] in str(result)
    assert result.verdict[0].split("(")[0].strip()[:20] in result._repr_html_()
    assert result.to_dict()["comparisons"] == result.comparisons
    assert lastbit.noise({"NaN": BASE}).groups[0]["group"] == "NaN"


def test_targets_plans_and_equivalence():
    assert lastbit.noise({"base": BASE}, above=90).significant
    assert not lastbit.noise({"base": BASE}, below=90).significant
    assert lastbit.noise(GROUPS, equivalent=5).equivalent is True
    plan = lastbit.noise(GROUPS, gain=0.2, plan=3, boundary="pocock").plan
    assert plan is not None and len(plan["looks"]) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"level": 2}, "level: found 2, expected a number from 0.0001 to 0.5"),
        ({"gain": -1.0}, "gain: found -1, expected a number greater than 0"),
        ({"compare": ("base", "other")}, "compare: found other, expected one of base, new"),
        ({"compare": ("base",)}, "compare: found ('base',), expected two groups"),
        ({"below": 1, "above": 2}, "below: found it with above"),
        ({"plan": 3}, "plan: found it without gain"),
        ({"boundary": "flat"}, "boundary: found flat, expected one of"),
        ({"resamples": 3}, "resamples: found 3"),
    ],
)
def test_wrong_arguments_are_refused_with_their_name(arguments, message):
    with pytest.raises(lastbit.InputError) as refused:
        lastbit.noise(GROUPS, **arguments)
    assert message in str(refused.value)
    assert isinstance(refused.value, ValueError) and isinstance(refused.value, lastbit.LastbitError)


def test_wrong_tables_are_refused(tmp_path):
    for runs, message in [
        ({"base": [1.0, float("nan")]}, "runs: found NaN in group base, expected finite numbers"),
        ({"base": []}, "no runs in group base"),
        ({}, "no runs"),
        (3, "runs: found int"),
        ({"base": ["many"]}, "found 'many' as a value"),
        ({"group": ["a", "a"], "seed": [1, 1], "value": [1, 2]}, "seed 1 more than once in group a, expected each seed once in a group; unpaired leaves"),
    ]:
        with pytest.raises(lastbit.InputError) as refused:
            lastbit.noise(runs)
        assert message in str(refused.value)
    with pytest.raises(lastbit.LastbitError, match="cannot be read"):
        lastbit.noise(tmp_path / "missing.csv")
