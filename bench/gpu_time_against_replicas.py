"""Milliseconds for one step of one network against the number of replicas, as an SVG file.

    for n in 1 2 4 6 12 24 36 48 64; do gpu_steps f32 $n --csv times.csv; gpu_steps tf32 $n --csv times.csv; done
    python bench/gpu_time_against_replicas.py times.csv times.svg

Both axes are logarithmic. Needs nothing but Python.
"""

import csv
import math
import sys
from pathlib import Path

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 400, 60, 90, 20, 50
COLORS = {"f32": "#1f77b4", "tf32": "#d62728", "f64": "#2ca02c"}


def scale(values, low, high):
    """Maps the values' range to low .. high, logarithmically."""
    first, last = math.log(min(values)), math.log(max(values))
    return lambda x: low + (high - low) * (math.log(x) - first) / ((last - first) or 1)


def ticks(values):
    """1, 2, 5, 10, … within the range and just around it."""
    steps = [m * 10**e for e in range(-2, 5) for m in (1, 2, 5)]
    inside = [s for s in steps if min(values) <= s <= max(values)]
    below = [s for s in steps if s < min(values)][-1:]
    above = [s for s in steps if s > max(values)][:1]
    return below + inside + above


def drawn(rows):
    curves = {}
    for row in rows:
        point = int(row["replicas"]), float(row["ms_per_step_and_network"])
        curves.setdefault(row["precision"], []).append(point)
    counts = sorted({n for curve in curves.values() for n, _ in curve})
    times = ticks([t for curve in curves.values() for _, t in curve])
    x, y = scale(counts, LEFT, WIDTH - RIGHT), scale(times, HEIGHT - BOTTOM, TOP)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
             'font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>']  # fmt: skip
    for n in counts:
        parts.append(f'<text x="{x(n):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{n}</text>')
    for t in times:
        parts.append(f'<path d="M{LEFT} {y(t):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(t) + 4:.1f}" text-anchor="end">{t:g}</text>')
    for name, curve in curves.items():
        color, curve = COLORS.get(name, "black"), sorted(curve)
        line = " ".join(f"{x(n):.1f},{y(t):.1f}" for n, t in curve)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(n):.1f}" cy="{y(t):.1f}" r="3" fill="{color}"/>' for n, t in curve]
        n, t = curve[-1]
        parts.append(f'<text x="{x(n) + 8:.1f}" y="{y(t) + 4:.1f}" fill="{color}">{name} {t:.2f}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">replicas</text>')
    parts.append(f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">'
                 "ms for one step of one network</text>")  # fmt: skip
    return "\n".join(parts + ["</svg>\n"])


def main():
    table, figure = map(Path, sys.argv[1:3])
    with table.open() as file:
        figure.write_text(drawn(list(csv.DictReader(file))))


if __name__ == "__main__":
    main()
