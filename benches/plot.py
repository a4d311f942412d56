"""Curves as SVG, with the standard library only: panels of lines over a logarithmic x axis."""

import math
from xml.sax.saxutils import escape

WIDTH, PANEL, TOP, LEFT, RIGHT, GAP = 720, 230, 64, 92, 168, 74
COLOURS = ["#1b6ca8", "#c8553d", "#3d8b57", "#7d4f9e"]
FONT = 'font-family="sans-serif" fill="#222"'
SHORT = [(1e9, "G"), (1e6, "M"), (1e3, "k")]


def number(value):
    """1500 is 1.5k."""
    for size, letter in SHORT:
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def size(value):
    """1024 is 1 KiB."""
    for unit, letters in [(1 << 20, "MiB"), (1 << 10, "KiB")]:
        if value >= unit:
            return f"{value / unit:.4g} {letters}"
    return f"{value:.4g} B"


def logarithmic(values):
    """Powers of ten around the values."""
    low, high = min(values), max(values)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    last = max(last, first + 1)
    return [10.0**power for power in range(first, last + 1)]


def linear(values):
    """About five round numbers from 0 to above the values."""
    high = max(values) or 1
    step = 10 ** math.floor(math.log10(high / 4))
    step *= next(factor for factor in (1, 2, 2.5, 5, 10) if high / (step * factor) <= 5)
    return [step * index for index in range(math.ceil(high / step) + 1)]


def place(value, ticks, is_log, low, high):
    """Where a value is between two coordinates."""
    first, last = ticks[0], ticks[-1]
    if is_log:
        value, first, last = math.log10(value), math.log10(first), math.log10(last)
    return low + (value - first) / (last - first) * (high - low)


def panel(top, curve, spec):
    """One panel: axes, grid, lines. `spec`: title, unit of y, series, perhaps log_y."""
    bottom = top + PANEL
    right = WIDTH - RIGHT
    series = spec["series"]
    xs = sorted({x for points in series.values() for x, _ in points})
    ys = [y for points in series.values() for _, y in points]
    x_ticks = [max(xs[0], 1e-9), xs[-1]] if len(xs) > 1 else [xs[0], xs[0] * 10]
    log_y = spec.get("log_y", False)
    y_ticks = logarithmic(ys) if log_y else linear(ys)
    x_name = size if curve.get("x_bytes") else number
    out = []
    for y in y_ticks:
        at = place(y, y_ticks, log_y, bottom, top)
        out.append(f'<path d="M{LEFT} {at:.1f}H{right}" stroke="#ddd"/>')
        out.append(
            f'<text x="{LEFT - 8}" y="{at + 4:.1f}" font-size="12" text-anchor="end" {FONT}>'
            f"{number(y)}</text>"
        )
    last = -100
    for x in xs:
        at = place(x, x_ticks, True, LEFT, right)
        out.append(f'<path d="M{at:.1f} {top}V{bottom}" stroke="#eee"/>')
        if at - last >= 44:
            last = at
            out.append(
                f'<text x="{at:.1f}" y="{bottom + 18}" font-size="12" text-anchor="middle" {FONT}>'
                f"{escape(x_name(x))}</text>"
            )
    middle = (top + bottom) / 2
    out.append(
        f'<text x="{(LEFT + right) / 2}" y="{bottom + 38}" font-size="13" text-anchor="middle" '
        f"{FONT}>{escape(curve['x'])} (logarithmic)</text>"
        f'<text x="22" y="{middle}" font-size="13" text-anchor="middle" {FONT} '
        f'transform="rotate(-90 22 {middle})">{escape(spec["unit"])}</text>'
        f'<text x="{LEFT}" y="{top - 8}" font-size="13" font-weight="bold" {FONT}>'
        f"{escape(spec['title'])}</text>"
        f'<path d="M{LEFT} {top}V{bottom}H{right}" fill="none" stroke="#444"/>'
    )
    for index, (name, points) in enumerate(series.items()):
        colour = COLOURS[index % len(COLOURS)]
        spots = [
            (place(x, x_ticks, True, LEFT, right), place(y, y_ticks, log_y, bottom, top))
            for x, y in points
        ]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in spots]
        legend = top + 14 + 20 * index
        out.append(
            f'<path d="M{right + 12} {legend - 4}h18" stroke="{colour}" stroke-width="3"/>'
            f'<text x="{right + 36}" y="{legend}" font-size="12" {FONT}>{escape(name)}</text>'
        )
    return out


def svg(curve):
    """A whole picture of a curve: `title`, `note`, `x`, `panels`."""
    height = TOP + len(curve["panels"]) * (PANEL + GAP)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="16" y="24" font-size="16" font-weight="bold" {FONT}>'
        f"{escape(curve['title'])}</text>",
        f'<text x="16" y="42" font-size="11" {FONT}>{escape(curve["note"])}</text>',
    ]
    for index, spec in enumerate(curve["panels"]):
        out += panel(TOP + 12 + index * (PANEL + GAP), curve, spec)
    return "\n".join([*out, "</svg>", ""])
