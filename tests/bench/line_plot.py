# SPDX-License-Identifier: BSD-3-Clause
"""Curves side by side in an SVG, without a library of plots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

Points = Sequence[tuple[float, float]]
COLORS = ("#444444", "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2", "#bcbd22")
WIDTH, HEIGHT, TOP, LEFT, GAP, FOOT = 380, 340, 50, 60, 80, 40


@dataclass(frozen=True)
class Panel:
    """One pair of axes: a title, and for each label the points (x, y) of its curve. Values that are not finite are left out."""

    title: str
    curves: Mapping[str, Points]

    def limits(self) -> tuple[float, float, float, float]:
        """xmin, xmax, ymin, ymax of what is drawn. Curves that rise far above the others' start leave the picture."""
        seen = [p for curve in self.curves.values() for p in curve if math.isfinite(p[1])] or [(0.0, 0.0)]
        start = [curve[0][1] for curve in self.curves.values() if curve and math.isfinite(curve[0][1])] or [0.0]
        ys = [min(y, 1.1 * max(start)) for _, y in seen]
        xs = [x for x, _ in seen]
        return min(xs), max(max(xs), min(xs) + 1), min(ys), max(max(ys), min(ys) + 1e-3)


def _step(span: float) -> float:
    """A round number of which four to ten make up the span."""
    power = 10.0 ** math.floor(math.log10(span))
    return next(power * f for f in (0.1, 0.2, 0.5, 1.0) if span / (power * f) <= 10)


def _ticks(low: float, high: float) -> list[float]:
    step = _step(high - low)
    return [step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _axes(panel: Panel, x0: float, at_x: Mapping[float, float], at_y: Mapping[float, float], x_label: str) -> list[str]:
    end, foot = x0 + WIDTH, TOP + HEIGHT
    out = [f'<text x="{x0}" y="{TOP - 12}" font-size="14" font-weight="bold">{escape(panel.title)}</text>']
    for value, x in at_x.items():
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{foot}" stroke="#ddd"/>')
        out.append(f'<text x="{x:.1f}" y="{foot + 16}" text-anchor="middle">{value:g}</text>')
    for value, y in at_y.items():
        out.append(f'<line x1="{x0}" y1="{y:.1f}" x2="{end}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>')
    out.append(f'<rect x="{x0}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#444"/>')
    out.append(f'<text x="{x0 + WIDTH / 2}" y="{foot + 34}" text-anchor="middle">{escape(x_label)}</text>')
    return out


def _panel(panel: Panel, x0: float, x_label: str, styles: Mapping[str, str]) -> list[str]:
    xmin, xmax, ymin, ymax = panel.limits()

    def at_x(x: float) -> float:
        return x0 + (x - xmin) / (xmax - xmin) * WIDTH

    def at_y(y: float) -> float:
        return TOP + HEIGHT - (min(y, ymax) - ymin) / (ymax - ymin) * HEIGHT

    out = _axes(panel, x0, {t: at_x(t) for t in _ticks(xmin, xmax)}, {t: at_y(t) for t in _ticks(ymin, ymax)}, x_label)
    for label, curve in panel.curves.items():
        points = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in curve if math.isfinite(y))
        name = f"<title>{escape(label)}</title>"
        out.append(f'<polyline fill="none" stroke-width="1.8" {styles[label]} points="{points}">{name}</polyline>')
    return out


def svg(panels: Sequence[Panel], x_label: str, dashed: Sequence[str] = ()) -> str:
    """The panels in a row, and below them which curve is whose; those of the labels in `dashed` are dashed."""
    labels = list(dict.fromkeys(label for panel in panels for label in panel.curves))
    styles = {label: f'stroke="{COLORS[i % len(COLORS)]}"' + (' stroke-dasharray="6 4"' if label in dashed else "")
              for i, label in enumerate(labels)}
    columns = 2 * len(panels)
    width = LEFT + len(panels) * (WIDTH + GAP)
    legend = TOP + HEIGHT + FOOT + 20
    height = legend + 18 * math.ceil(len(labels) / columns) + 10
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for i, panel in enumerate(panels):
        out += _panel(panel, LEFT + i * (WIDTH + GAP), x_label, styles)
    for i, label in enumerate(labels):
        x, y = LEFT + i % columns * (width - LEFT) / columns, legend + 18 * (i // columns)
        out.append(f'<line x1="{x:.0f}" y1="{y}" x2="{x + 24:.0f}" y2="{y}" stroke-width="1.8" {styles[label]}/>')
        out.append(f'<text x="{x + 30:.0f}" y="{y + 4}">{escape(label)}</text>')
    return "\n".join([*out, "</svg>", ""])
