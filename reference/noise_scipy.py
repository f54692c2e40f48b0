"""Statistics of a handful of runs, by scipy. Writes crates/lastbit/tests/golden/statistics.json.

    python reference/noise_scipy.py

Distributions and power come from scipy.stats (power by the noncentral t), tests from
scipy.stats.permutation_test, intervals from scipy.stats.bootstrap with 10^6 resamples (BCa).
Accuracies are whole numbers of examples here, because scipy looks for ties within 100 eps of the
observed difference, which the rounding of accuracies exceeds; prints how p changes where the same
data are given as fractions. Where there are too many sign patterns to count, the exact p comes from
convolution of the differences' distributions, which whole numbers allow.
"""

import json
from math import comb
from pathlib import Path

import numpy as np
from scipy import integrate, optimize, stats

OUT = Path(__file__).parent.parent / "crates/lastbit/tests/golden/statistics.json"
RESAMPLES = 1_000_000
CONFIDENCE = 0.95


def distributions():
    shares = [1e-6, 0.025, 0.3, 0.5, 0.8, 0.975, 0.999]
    degrees = [1, 2, 5, 9, 29, 300]
    cases = {
        "normal_cdf": [[x, stats.norm.cdf(x)] for x in [-8.0, -1.0, 0.0, 0.5, 3.0]],
        "normal_quantile": [[p, stats.norm.ppf(p)] for p in shares],
        "chi_square_quantile": [[p, nu, stats.chi2.ppf(p, nu)] for p in shares for nu in degrees],
        "student_cdf": [[t, nu, stats.t.cdf(t, nu)] for t in [-4.0, -0.3, 0.0, 2.5] for nu in degrees],
        "student_quantile": [[p, nu, stats.t.ppf(p, nu)] for p in shares for nu in degrees],
        "f_quantile": [[p, m, n, stats.f.ppf(p, m, n)] for p in shares for m in [1, 5, 29] for n in [1, 5, 300]],
        "noncentral_t_cdf": [
            [t, nu, d, stats.nct.cdf(t, nu, d)]
            for t in [-2.0, 0.0, 1.0, 2.6, 6.0]
            for nu in [1, 5, 18, 300]
            for d in [-1.0, 0.0, 0.7, 3.3, 8.0]
        ],
    }
    return cases


def power_of(paired, n, effect, level):
    nu = n - 1 if paired else 2 * n - 2
    delta = effect * np.sqrt(n if paired else n / 2)
    t = stats.t.ppf(1 - level / 2, nu)
    # scipy's noncentral t is NaN far out in the lower tail: there by its definition.
    scale = stats.chi(nu, scale=nu**-0.5)
    below = lambda s: stats.norm.cdf(-t * s - delta) * scale.pdf(s)
    return stats.nct.sf(t, nu, delta) + integrate.quad(below, 0, 10, epsabs=1e-16, epsrel=1e-12)[0]


def powers():
    cases = []
    for paired in [True, False]:
        for n in [2, 3, 6, 10, 30]:
            for level, power in [(0.05, 0.8), (0.01, 0.9)]:
                gap = lambda effect: power_of(paired, n, effect, level) - power
                effect = optimize.brentq(gap, 0.0, 1000.0, xtol=1e-13, rtol=1e-14)
                needed = next(m for m in range(2, 10_000) if power_of(paired, m, 0.7 * effect, level) >= power)
                cases.append({
                    "paired": paired, "n": n, "level": level, "power": power,
                    "detectable": effect, "needed_for_0.7": needed,
                })
    return cases


def data():
    """Base and new, in examples of 10,000."""
    rng = np.random.default_rng(5)

    def pairs(n, shift, spread=16.0):
        base = np.rint(rng.normal(9330, 17, n))
        return base, base + np.rint(rng.normal(shift, spread, n))

    cases = {f"pairs{n}": pairs(n, shift) for n, shift in [(5, 20), (6, 25), (10, 12), (30, 7)]}
    cases["ties"] = (np.array([9331.0, 9297, 9342, 9310, 9353, 9288]), np.array([9333.0, 9299, 9343, 9311, 9354, 9287]))
    cases["equal"] = (np.full(6, 9331.0), np.full(6, 9331.0))
    return cases


# Statistics of whole numbers, rounded once at the end: what is equal stays equal.


def difference(new, base, axis):
    m, n = new.shape[axis], base.shape[axis]
    return (n * np.sum(new, axis=axis) - m * np.sum(base, axis=axis)) / (m * n)


def sigma(x, axis):
    n = x.shape[axis]
    return np.sqrt((n * np.sum(x * x, axis=axis) - np.sum(x, axis=axis) ** 2) / (n * (n - 1)))


def two_sided(new, base, kind):
    found = stats.permutation_test(
        (new, base), difference, permutation_type=kind, vectorized=True,
        n_resamples=1 << 21, alternative="two-sided", batch=1 << 16,
    )
    return float(found.pvalue)


def exact_sign_flip(d):
    """p of all 2^n sign patterns of whole numbers, by convolution."""
    d = [int(x) for x in d]
    reach = sum(abs(x) for x in d)
    counts = {0: 1}
    for x in d:
        after = {}
        for s, c in counts.items():
            for y in (s + x, s - x):
                after[y] = after.get(y, 0) + c
        counts = after
    ours = sum(d)
    less = sum(c for s, c in counts.items() if s <= ours)
    greater = sum(c for s, c in counts.items() if s >= ours)
    assert max(counts) == reach
    return min(1.0, 2 * min(less, greater) / 2 ** len(d))


def bca_shares(samples, statistic, values):
    """z0, and the shares of the resampled values at which the BCa interval ends."""
    ours = statistic(*samples, axis=0)
    z0 = stats.norm.ppf((np.mean(values < ours) + np.mean(values <= ours)) / 2)
    cubes = squares = 0.0
    for j, sample in enumerate(samples):
        n = len(sample)
        without = [[np.delete(x, i) if k == j else x for k, x in enumerate(samples)] for i in range(n)]
        left_out = np.array([statistic(*parts, axis=0) for parts in without])
        influence = (n - 1) / n * (left_out.mean() - left_out)
        cubes, squares = cubes + np.sum(influence**3), squares + np.sum(influence**2)
    a = cubes / squares**1.5 / 6
    z = z0 + stats.norm.ppf([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return z0, stats.norm.cdf(z0 + z / (1 - a * z))


def bca(samples, statistic, seed=0):
    """Both ends, each with the band in which those of another RESAMPLES resamples must lie.

    An end is a quantile at a share a, which z0 moves: a has the standard error
    sqrt(a (1 - a)/B) + phi(z_a) 2 (1/2)/(phi(z0) sqrt(B)). Four of them, times sqrt(2) for the two
    sides, are allowed around a. (Quantiles of few runs jump: there are few different resamples.)
    """
    found = stats.bootstrap(
        samples, statistic, n_resamples=RESAMPLES, method="BCa", vectorized=True, batch=10_000,
        confidence_level=CONFIDENCE, rng=np.random.default_rng(seed),
    )
    values = found.bootstrap_distribution
    z0, shares = bca_shares(samples, statistic, values)
    assert np.allclose(np.quantile(values, shares), found.confidence_interval, rtol=1e-9)
    ends = []
    for end, a in zip(found.confidence_interval, shares):
        error = np.sqrt(a * (1 - a)) + stats.norm.pdf(stats.norm.ppf(a)) / stats.norm.pdf(z0)
        reach = 4 * np.sqrt(2) * error / np.sqrt(RESAMPLES)
        band = np.quantile(values, [max(a - reach, 0), min(a + reach, 1)])
        ends.append({"end": float(end), "band": band.tolist()})
    return ends


def tests():
    cases = []
    for name, (base, new) in data().items():
        n, d = len(base), new - base
        case = {"name": name, "base": base.tolist(), "new": new.tolist()}
        case["sign_flip_p"] = exact_sign_flip(d)
        if n <= 20:
            p = two_sided(new, base, "samples")
            assert abs(p - case["sign_flip_p"]) < 1e-12, (name, p, case["sign_flip_p"])
            fractions = two_sided(new / 1e4, base / 1e4, "samples")
            print(f"{name}: sign-flip p {p:.6g} in examples, {fractions:.6g} in fractions")
        if comb(2 * n, n) <= 1 << 20:
            case["split_p"] = two_sided(new, base, "independent")
        # Seeds that do not match: the last two of new are missing.
        if 2 < n <= 11:
            case["unequal_split_p"] = two_sided(new[:-2], base, "independent")
        case["mean"], case["sigma"] = float(np.mean(new)), float(sigma(new, 0))
        if case["sigma"] > 0:
            chi = stats.chi2.ppf([1 - (1 - CONFIDENCE) / 2, (1 - CONFIDENCE) / 2], n - 1)
            case["sigma_interval"] = (case["sigma"] * np.sqrt((n - 1) / chi)).tolist()
            case["bca_mean"] = bca((new,), lambda x, axis: np.mean(x, axis=axis))
            case["bca_sigma"] = bca((new,), sigma)
            case["bca_paired"] = bca((d,), lambda x, axis: np.mean(x, axis=axis))
            case["bca_unpaired"] = bca((new, base), difference)
        cases.append(case)
    return cases


def main():
    golden = {"made_by": "reference/noise_scipy.py", "distributions": distributions(), "power": powers(), "data": tests()}
    OUT.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
