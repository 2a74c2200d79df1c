"""Grouped bars as SVG, with their values above them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

WIDTH: Final = 820
PANEL_HEIGHT: Final = 270
TOP: Final = 58
BOTTOM: Final = 34
SIDE: Final = 20
GAP: Final = 0.25
"""Share of a group's width that is left empty around its bars."""

COLOURS: Final = ("#1f4e79", "#c8c8c8", "#8fb7d9", "#d98c5f", "#a9c29a", "#e3b98f")
FONT: Final = "font-family='system-ui, sans-serif'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One bar in each group; None where there is none."""

    name: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Bars on one scale, from 0 to the largest of them."""

    title: str
    groups: tuple[str, ...]
    series: tuple[Series, ...]


def svg(panels: Sequence[Panel]) -> str:
    """Panels one below the other. Equal panels make equal bytes."""
    height = PANEL_HEIGHT * len(panels)
    size = f"viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' height='{height}'"
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' {size}>",
        f"<rect width='{WIDTH}' height='{height}' fill='#ffffff'/>",
    ]
    for number, panel in enumerate(panels):
        parts.append(f"<g transform='translate(0 {number * PANEL_HEIGHT})'>")
        parts += _panel(panel)
        parts.append("</g>")
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _panel(panel: Panel) -> list[str]:
    values = [each for series in panel.series for each in series.values if each is not None]
    most = max(values, default=0) or 1
    bottom, room = PANEL_HEIGHT - BOTTOM, PANEL_HEIGHT - BOTTOM - TOP - 16
    group_width = (WIDTH - 2 * SIDE) / max(1, len(panel.groups))
    bar_width = group_width * (1 - GAP) / max(1, len(panel.series))
    parts = [_text(SIDE, 22, panel.title, size=15, weight="600"), *_legend(panel)]
    for at, label in enumerate(panel.groups):
        left = SIDE + at * group_width
        parts.append(_text(left + group_width / 2, bottom + 20, label, size=12, anchor="middle"))
        for number, series in enumerate(panel.series):
            value = series.values[at]
            if value is None:
                continue
            x = left + group_width * GAP / 2 + number * bar_width
            high = room * value / most
            parts.append(
                f"<rect x='{x:.1f}' y='{bottom - high:.1f}' width='{bar_width - 3:.1f}' "
                f"height='{high:.1f}' fill='{COLOURS[number % len(COLOURS)]}'/>"
            )
            middle = x + (bar_width - 3) / 2
            parts.append(
                _text(middle, bottom - high - 4, f"{value:,.0f}", size=11, anchor="middle")
            )
    parts.append(
        f"<line x1='{SIDE}' y1='{bottom}' x2='{WIDTH - SIDE}' y2='{bottom}' stroke='#444444'/>"
    )
    return parts


def _legend(panel: Panel) -> list[str]:
    parts, x = [], float(SIDE)
    for number, series in enumerate(panel.series):
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f"<rect x='{x:.0f}' y='33' width='11' height='11' fill='{colour}'/>")
        parts.append(_text(x + 16, 43, series.name, size=11))
        x += 27 + 6.4 * len(series.name)
    return parts


def _text(
    x: float, y: float, text: str, *, size: int, anchor: str = "start", weight: str = "400"
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' {FONT} font-size='{size}' font-weight='{weight}' "
        f"text-anchor='{anchor}' fill='#222222'>{escape(text)}</text>"
    )
