"""Line charts as SVG, without a library: the same figures give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import Final

Point = tuple[float, float]

_WIDTH: Final = 720
_HEIGHT: Final = 440
_LEFT: Final = 80
_RIGHT: Final = 200
_TOP: Final = 48
_BOTTOM: Final = 56
_TICKS: Final = 6
_STEPS: Final = (1, 2, 2.5, 5, 10)
# Told apart by people who do not see red and green apart (Okabe and Ito).
_COLOURS: Final = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")


@dataclass(frozen=True)
class Series:
    """One line of a chart.

    Args:
        name: for the legend.
        points: in order; joined, unless they are marks.
        marks: show single crosses, for figures that others have published.
    """

    name: str
    points: tuple[Point, ...]
    marks: bool = False


def chart(title: str, across: str, up: str, series: Sequence[Series]) -> str:
    """Draw a line chart whose axes begin at 0.

    Args:
        title: above it.
        across: what the horizontal axis shows.
        up: what the vertical axis shows.
        series: at least one point in all.

    Returns:
        An SVG document.
    """
    points = [point for one in series for point in one.points]
    frame = _Frame(_ceiling(x for x, _ in points), _ceiling(y for _, y in points))
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
            f'viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" font-family="sans-serif">'
        ),
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 24, title, size=15),
        *frame.axes(across, up),
    ]
    for place, one in enumerate(series):
        colour = _COLOURS[place % len(_COLOURS)]
        parts += frame.line(one, colour)
        parts += _legend(place, one, colour)
    return "\n".join([*parts, "</svg>", ""])


@dataclass(frozen=True)
class _Frame:
    """The drawing area; `most_x` and `most_y` stand at its far ends."""

    most_x: float
    most_y: float

    def x(self, value: float) -> float:
        return _LEFT + value / self.most_x * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - value / self.most_y * (_HEIGHT - _TOP - _BOTTOM)

    def axes(self, across: str, up: str) -> list[str]:
        right, bottom = self.x(self.most_x), self.y(0)
        parts = []
        for value in _ticks(self.most_y):
            y = self.y(value)
            parts.append(_stroke((_LEFT, y), (right, y), "#dddddd"))
            parts.append(_text(_LEFT - 8, y + 4, _number(value), anchor="end"))
        for value in _ticks(self.most_x):
            x = self.x(value)
            parts.append(_stroke((x, bottom), (x, bottom + 5), "#444444"))
            parts.append(_text(x, bottom + 20, _number(value), anchor="middle"))
        parts.append(_stroke((_LEFT, _TOP), (_LEFT, bottom), "#444444"))
        parts.append(_stroke((_LEFT, bottom), (right, bottom), "#444444"))
        parts.append(_text((_LEFT + right) / 2, bottom + 42, across, anchor="middle"))
        middle = (_TOP + bottom) / 2
        turned = f' transform="rotate(-90 18 {middle:.1f})"'
        parts.append(_text(18, middle, up, anchor="middle", more=turned))
        return parts

    def line(self, series: Series, colour: str) -> list[str]:
        places = [(self.x(x), self.y(y)) for x, y in series.points]
        if series.marks:
            return [cross for x, y in places for cross in _cross(x, y, colour)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in places]
        return [
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
            *dots,
        ]


def _legend(place: int, series: Series, colour: str) -> list[str]:
    x, y = _WIDTH - _RIGHT + 16, _TOP + 12 + 22 * place
    sample = _cross(x + 11, y - 4, colour)
    if not series.marks:
        sample = [_stroke((x, y - 4), (x + 22, y - 4), colour, 2)]
    return [*sample, _text(x + 30, y, series.name)]


def _cross(x: float, y: float, colour: str) -> list[str]:
    return [
        _stroke((x - 5, y - 5), (x + 5, y + 5), colour, 2),
        _stroke((x - 5, y + 5), (x + 5, y - 5), colour, 2),
    ]


def _stroke(start: Point, end: Point, colour: str, width: int = 1) -> str:
    (x1, y1), (x2, y2) = start, end
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{colour}" stroke-width="{width}"/>'
    )


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, more: str = ""
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
    return f"<text {place}{more}>{escape(text)}</text>"


def _ceiling(values: Iterable[float]) -> float:
    """The end of an axis: a whole number of ticks, at or above every value."""
    most = max(values, default=0.0)
    step = _step(most)
    return max(1, ceil(most / step)) * step


def _step(most: float) -> float:
    if most <= 0:
        return 1.0
    scale = 10.0 ** floor(log10(most / _TICKS))
    return next(step * scale for step in _STEPS if step * scale * _TICKS >= most)


def _ticks(most: float) -> list[float]:
    step = _step(most)
    return [step * number for number in range(round(most / step) + 1)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"
