"""The rule by which `lastbit check` tells rounding from a bug, by numpy and scipy.
Writes crates/lastbit/tests/golden/envelope.json.

    python reference/envelope_numpy.py
    python reference/envelope_numpy.py simulate      # false alarms of candidates for the rule, minutes

`simulate` compares the candidates from which the rule was chosen: the tail alone with three powers, the
predictive t alone, and the larger p of both.
"""

import json
import sys
from pathlib import Path

import numpy as np
from scipy import stats

OUT = Path(__file__).parent.parent / "crates/lastbit/tests/golden/envelope.json"
REACH, DEGREES_OF_NEIGHBOURS, TAIL = 5, 8.0, 1.5


def scores(rows, spacing):
    """Each run beside all others: an array of runs by steps."""
    runs, steps = rows.shape
    found = np.empty_like(rows)
    for i in range(runs):
        others = np.delete(rows, i, axis=0)
        mean = others.mean(axis=0)
        v = others.var(axis=0, ddof=1) + spacing**2 + (2.0**-21 * mean) ** 2
        log = np.log(np.maximum(v, np.finfo(float).tiny))
        near = np.array([log[max(0, s - REACH) : s + REACH + 1].mean() for s in range(steps)])
        nu = runs - 2
        smooth = np.minimum(np.exp(near), 100 * v)
        moderated = (nu * v + DEGREES_OF_NEIGHBOURS * smooth) / (nu + DEGREES_OF_NEIGHBOURS)
        found[i] = (rows[i] - mean) / np.sqrt(moderated * (1 + 1 / (runs - 1)))
    return found


def usual(z):
    """The largest score of the other runs nearby."""
    runs, steps = z.shape
    near = np.array([np.abs(z[:, max(0, s - REACH) : s + REACH + 1]).max(axis=1) for s in range(steps)]).T
    return np.array([np.maximum(1.0, np.delete(near, i, axis=0).max(axis=0)) for i in range(runs)])


def deviations(all_scores):
    """T of each run; the new one is the last."""
    return np.maximum(1.0, np.max([(np.abs(z) / usual(z)).max(axis=1) for z in all_scores], axis=0))


def tail_p(t, power=TAIL):
    new, runs = t[-1], t[:-1]
    if new <= runs.max():
        return (1 + np.sum(runs >= new)) / len(t)
    return (runs.max() / new) ** power / len(t)


def t_p(t):
    logs, n = np.log(t[:-1]), len(t) - 1
    error = logs.std(ddof=1) * np.sqrt(1 + 1 / n)
    return stats.t.sf((np.log(t[-1]) - logs.mean()) / error, n - 1)


def limit(t, level):
    largest_first, n = np.sort(t[:-1])[::-1], len(t) - 1
    allowed = int(level * (n + 1))
    by_tail = largest_first[allowed - 1] if allowed else largest_first[0] * (1 / (level * (n + 1))) ** (1 / TAIL)
    logs = np.log(t[:-1])
    error = logs.std(ddof=1) * np.sqrt(1 + 1 / n)
    with np.errstate(over="ignore"):  # two runs support no low level
        return max(by_tail, np.exp(logs.mean() + error * stats.t.ppf(1 - level, n - 1)))


def noise(kind, rng, runs, steps):
    shape = (runs, steps)
    along = np.arange(steps) / steps
    if kind == "white":
        return rng.normal(size=shape)
    if kind == "t3":
        return rng.standard_t(3, size=shape)
    if kind == "walk":
        return np.cumsum(rng.normal(size=shape), axis=1)
    if kind == "ar":
        x = np.empty(shape)
        x[:, 0] = rng.normal(size=runs)
        for s in range(1, steps):
            x[:, s] = 0.99 * x[:, s - 1] + np.sqrt(1 - 0.99**2) * rng.normal(size=runs)
        return x
    grown = np.exp(np.log(1e-7) * np.maximum(0, 1 - along / 0.6))
    decay = 3 * np.exp(-2 * along)
    if kind == "grow":
        return decay + grown * rng.normal(size=(runs, 1)) * (1 + 0.3 * rng.normal(size=shape))
    if kind == "rates":  # each run with a growth rate of its own
        rate = 1 + 0.1 * rng.normal(size=(runs, 1))
        own = rng.normal(size=(runs, 1)) * np.exp(np.log(1e-7) * (1 - rate * along / 0.6))
        return decay + own / np.sqrt(1 + own**2) * (1 + 0.3 * rng.normal(size=shape))
    assert kind == "trend"
    return rng.normal(size=(runs, 1)) * along + 0.1 * rng.normal(size=shape)


KINDS = ["white", "t3", "walk", "ar", "grow", "rates", "trend"]


def simulate(envelopes=1000, steps=20, level=0.01):
    rules = {f"tail {power}": lambda t, power=power: tail_p(t, power) for power in [1.5, 2.0, 3.0]}
    rules |= {"t": t_p, "both": lambda t: max(tail_p(t), t_p(t))}
    print(f"false alarms in % of {envelopes} envelopes of {steps} steps, level {level:.0%}")
    print(f"{'noise':8}  n  metrics  " + "  ".join(f"{name:>8}" for name in rules))
    for kind in KINDS:
        for n in [4, 8, 16]:
            for metrics in [1, 5]:
                rng = np.random.default_rng(1)
                draw = lambda: [scores(noise(kind, rng, n + 1, steps), 0.0) for _ in range(metrics)]
                t = [deviations(draw()) for _ in range(envelopes)]
                shares = [100 * np.mean([rule(one) <= level for one in t]) for rule in rules.values()]
                print(f"{kind:8} {n:2} {metrics:8}  " + "  ".join(f"{share:8.1f}" for share in shares), flush=True)


def cases():
    rng = np.random.default_rng(22)
    for n in [2, 4, 8, 16]:
        for kind in KINDS:
            rows = [noise(kind, rng, n + 1, steps) for steps in [17, 9]]
            yield f"{kind}, {n} runs", [(r, 0.0) for r in rows]
    off = noise("white", rng, 9, 25)
    off[-1, 12] += 40
    yield "one value off", [(off, 0.0)]
    accuracy = np.round(rng.normal(200, 1.5, size=(9, 12))) / 300
    yield "accuracy", [(accuracy, 1 / 300)]


def main():
    golden = []
    for name, metrics in cases():
        found = [scores(rows, spacing) for rows, spacing in metrics]
        t = deviations(found)
        golden.append({
            "name": name,
            "metrics": [
                {"runs": rows[:-1].tolist(), "new": rows[-1].tolist(), "spacing": spacing,
                 "score": z[-1].tolist(), "usual": usual(z)[-1].tolist()}
                for (rows, spacing), z in zip(metrics, found)
            ],
            "deviation": float(t[-1]), "of_runs": t[:-1].tolist(),
            "rank_p": float((1 + np.sum(t[:-1] >= t[-1])) / len(t)),
            "tail_p": float(tail_p(t)), "t_p": float(t_p(t)),
            "limits": [{"level": level, "limit": float(limit(t, level))} for level in ([0.2, 0.05, 0.01, 0.001] if len(t) > 3 else [0.2])],
        })
    OUT.write_text(json.dumps({"made_by": "reference/envelope_numpy.py", "cases": golden}) + "\n")


if __name__ == "__main__":
    simulate() if sys.argv[1:] == ["simulate"] else main()
