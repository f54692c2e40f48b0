"""t-tests of a handful of runs, by scipy. Writes crates/lastbit/tests/golden/t_tests.json.

    python reference/t_tests_scipy.py

Intervals and p-values of paired, Welch's and one-sample t-tests come from scipy.stats.ttest_rel,
ttest_ind and ttest_1samp; two one-sided tests (TOST) are two of those. Minimum detectable effects of
samples of unequal sizes, and one-sided ones, are solved for with the noncentral t (scipy.stats.nct).
Also prints the minimum detectable effect of 6 against 8 runs, and what taking 6 for both would say.
"""

import json
from pathlib import Path

import numpy as np
from scipy import integrate, optimize, stats

OUT = Path(__file__).parent.parent / "crates/lastbit/tests/golden/t_tests.json"


def power(nu, delta, level, tails):
    t = stats.t.ppf(1 - level / tails, nu)
    # scipy's noncentral t is NaN far out in the lower tail: there by its definition.
    scale = stats.chi(nu, scale=nu**-0.5)
    below = lambda s: stats.norm.cdf(-t * s - delta) * scale.pdf(s)
    lower = integrate.quad(below, 0, 10, epsabs=1e-16, epsrel=1e-12)[0] if tails == 2 else 0.0
    return stats.nct.sf(t, nu, delta) + lower


def detectable():
    cases = []
    for sizes in [[6, 8], [8, 6], [2, 3], [3, 40], [10, 12], [6], [9]]:
        for tails in [1, 2]:
            for level, goal in [(0.05, 0.8), (0.01, 0.9)]:
                n = sum(sizes)
                nu = n - len(sizes)
                precision = np.sqrt(n if len(sizes) == 1 else sizes[0] * sizes[1] / n)
                delta = optimize.brentq(lambda d: power(nu, d, level, tails) - goal, 0.0, 500.0, xtol=1e-13, rtol=1e-14)
                cases.append({
                    "sizes": sizes, "tails": tails, "level": level, "power": goal, "detectable": delta / precision,
                })
    return cases


def samples():
    rng = np.random.default_rng(11)
    base = np.round(rng.normal(93.3, 0.17, 8), 2)
    yield "pairs", base, np.round(base + rng.normal(0.12, 0.16, 8), 2)
    yield "unequal", np.round(rng.normal(93.3, 0.17, 6), 2), np.round(rng.normal(93.6, 0.4, 9), 2)
    yield "two", np.array([3.279, 3.281]), np.array([3.276, 3.2775])
    yield "close", np.round(rng.normal(3.28, 0.0013, 12), 4), np.round(rng.normal(3.28, 0.0011, 12), 4)


def tests():
    cases = []
    for name, base, new in samples():
        case = {"name": name, "base": base.tolist(), "new": new.tolist()}
        designs = {"welch": lambda x, **how: stats.ttest_ind(x, base, equal_var=False, **how)}
        if len(base) == len(new):
            designs["paired"] = lambda x, **how: stats.ttest_rel(x, base, **how)
        margin = 1.5 * abs(new.mean() - base.mean()) + 0.001
        case["margin"] = margin
        for design, test in designs.items():
            found = test(new)
            interval = found.confidence_interval(0.95)
            # Within ±margin: not below −margin, and not above it.
            tost = max(test(new + margin, alternative="greater").pvalue, test(new - margin, alternative="less").pvalue)
            within = found.confidence_interval(0.90)
            case[design] = {
                "p": found.pvalue, "degrees": float(found.df), "interval": list(interval),
                "equivalence_p": tost, "equivalence_interval": list(within),
            }
        target = float(np.round(new.mean() + 0.5 * new.std(ddof=1), 4))
        below, above = (stats.ttest_1samp(new, target, alternative=side) for side in ["less", "greater"])
        case["target"] = {
            "target": target, "p_below": below.pvalue, "p_above": above.pvalue,
            "upper_bound": below.confidence_interval(0.99).high, "lower_bound": above.confidence_interval(0.99).low,
        }
        cases.append(case)
    return cases


def main():
    golden = {"made_by": "reference/t_tests_scipy.py", "detectable": detectable(), "data": tests()}
    OUT.write_text(json.dumps(golden, indent=1) + "\n")
    found = {tuple(c["sizes"]): c["detectable"] for c in golden["detectable"] if c["tails"] == 2 and c["level"] == 0.05}
    delta = optimize.brentq(lambda d: power(10, d, 0.05, 2) - 0.8, 0.0, 50.0, xtol=1e-13)
    print(f"6 against 8 runs: {found[(6, 8)]:.6g} sigma; 6 against 6: {delta / np.sqrt(3):.6g}")


if __name__ == "__main__":
    main()
