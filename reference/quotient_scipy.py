"""Quotients of standard deviations with intervals, by scipy. Writes crates/lastbit/tests/golden/quotients.json.

    python reference/quotient_scipy.py

Quantiles come from scipy.stats.f. A table has a row for each group. "within_over_total" is inverted from the
F statistic of scipy.stats.f_oneway; "over" compares deviations within the groups of two tables. Also prints
how often intervals miss that count every entry of a table of 3 x 6 as a degree of freedom of its seeds.
"""

import json
from pathlib import Path

import numpy as np
from scipy import stats

OUT = Path(__file__).parent.parent / "crates/lastbit/tests/golden/quotients.json"


def within_over_total(table, confidence):
    (s, k), tail = table.shape, (1 - confidence) / 2
    f = stats.f_oneway(*table).statistic
    quantile = stats.f(s - 1, s * (k - 1)).ppf
    value = lambda f: (k / (k - 1 + f)) ** 0.5
    return [value(f), value(f / quantile(tail)), value(f / quantile(1 - tail))]


def pooled(table):
    return np.mean(np.var(table, axis=1, ddof=1)), table.shape[0] * (table.shape[1] - 1)


def over(a, b, confidence):
    (va, na), (vb, nb), tail = pooled(a), pooled(b), (1 - confidence) / 2
    quantile = stats.f(na, nb).ppf
    return [(va / vb) ** 0.5] + [(va / vb / quantile(p)) ** 0.5 for p in (1 - tail, tail)]


def main():
    rng = np.random.default_rng(5)
    cases = []
    for s, k, of_groups in [(6, 6, 0.2), (4, 6, 0.0), (3, 6, 0.5), (2, 3, 0.1), (12, 2, 1.0)]:
        first = np.round(93 + of_groups * rng.normal(size=(s, 1)) + 0.17 * rng.normal(size=(s, k)), 2)
        second = np.round(93 + 0.3 * rng.normal(size=(s + 1, k)), 2)
        for confidence in [0.95, 0.8]:
            cases.append({
                "first": first.tolist(), "second": second.tolist(), "confidence": confidence,
                "within_over_total": within_over_total(first, confidence),
                "over": over(first, second, confidence),
            })
    OUT.write_text(json.dumps(cases, indent=1) + "\n")

    missed = [0, 0]
    for _ in range(4000):
        table = 2 * rng.normal(size=(3, 1)) + rng.normal(size=(3, 6))
        intervals = [over(table, table.T, 0.95), within_over_total(table, 0.95)]
        for i, (_, low, high) in enumerate(intervals):
            missed[i] += not low <= 0.2**0.5 <= high
    print("missed of 4000 at 95 %: every entry counted {}, seeds counted {}".format(*missed))


main()
