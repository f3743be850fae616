"""The figures of paper 002, section 6, drawn from what was simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from brokers.simulation.drawing import Series, chart
from brokers.simulation.paper002 import GROUPS, Found, Study, simulate
from brokers.simulation.scenario import Progress, ScenarioError

POINTS: Final = (25, 50, 100, 200, 400, 700, 1000, 1500, 2000)
"""Numbers of subscribers, unless others are asked for."""
FIGURES: Final = (
    "attribute-encryption.svg",
    "whole-event-encryption.svg",
    "saving.svg",
)
"""Names of the figures' files: the paper's Fig. 5, its Fig. 6, and both against one another."""
PAPER_ATTRIBUTES: Final = {1000: 39_300}
PAPER_WHOLE: Final = {1000: 51_400}
PAPER_UNDECRYPTED: Final = {2000: 11_000}
PAPER_SAVED: Final = {1000: 24.0, 2000: 27.0}
"""What the paper's text says of its figures."""
_ACROSS: Final = "subscribers"
_UP: Final = "messages between agents"


def points(text: str | None) -> tuple[int, ...]:
    """Read numbers of subscribers.

    Args:
        text: with commas between them; None for `POINTS`.

    Raises:
        ScenarioError: not whole numbers from 1.
    """
    if text is None:
        return POINTS
    try:
        found = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        found = ()
    if not found or found[0] < 1:
        raise ScenarioError(f"`{text}` is no list of whole numbers from 1 with commas between them")
    return found


def study_of(agents: int, events: int, runs: int) -> Study:
    """A study of a size that makes sense.

    Raises:
        ScenarioError: a number is too small.
    """
    for name, value, least in (("agents", agents, 1), ("events", events, 1), ("runs", runs, 1)):
        if value < least:
            raise ScenarioError(f"`--{name}` must be at least {least}")
    return Study(agents=agents, events=events, runs=runs)


def run(study: Study, numbers: Sequence[int], seed: str, progress: Progress) -> tuple[Found, ...]:
    """Simulate all points.

    Args:
        study: its size.
        numbers: of subscribers.
        seed: the same seed gives the same counts.
        progress: told how far it is.
    """
    found = []
    for place, number in enumerate(numbers):
        progress(f"{number} subscribers, from", place / len(numbers))
        found.append(simulate(study, number, seed))
    progress("done", 1.0)
    return tuple(found)


def table(found: Sequence[Found]) -> str:
    """What was found, as a table in Markdown."""
    head = (
        "subscribers",
        *(f"attributes {name}" for name in (*GROUPS, "total")),
        *(f"whole {name}" for name in (*GROUPS, "total")),
        "fewer",
        "paper",
    )
    rows = [
        (
            f"{one.subscribers:,}",
            *(f"{tally[name]:,.0f}" for tally in _tallies(one) for name in (*GROUPS, "total")),
            f"{one.saved:.1f} %",
            f"{PAPER_SAVED[one.subscribers]:.0f} %" if one.subscribers in PAPER_SAVED else "",
        )
        for one in found
    ]
    lines = [head, tuple("---:" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _tallies(one: Found) -> list[dict[str, float]]:
    both = (one.attributes, one.whole)
    return [{**tally.hops, "total": tally.total} for tally in both]


def report(study: Study, found: Sequence[Found], seed: str) -> dict[str, Any]:
    """What was found, for programs."""
    return {
        "study": asdict(study),
        "seed": seed,
        "points": [
            {
                "subscribers": one.subscribers,
                "attributes": dict(one.attributes.hops),
                "whole": dict(one.whole.hops),
                "deliveries": one.attributes.deliveries,
                "saved_percent": round(one.saved, 2),
            }
            for one in found
        ],
    }


def figures(found: Sequence[Found]) -> dict[str, str]:
    """File name -> SVG."""

    def lines(place: int) -> list[Series]:
        return [
            Series(name, tuple((one.subscribers, _tallies(one)[place][name]) for one in found))
            for name in ("total", *GROUPS)
        ]

    most = max(one.subscribers for one in found)
    saved = Series("ours", tuple((one.subscribers, max(0.0, one.saved)) for one in found))
    drawn = (
        chart(
            "Messages with attribute encryption (paper 002, Fig. 5)",
            _ACROSS,
            _UP,
            [
                *lines(0),
                *_published("paper: total", PAPER_ATTRIBUTES, most),
                *_published("paper: S0", PAPER_UNDECRYPTED, most),
            ],
        ),
        chart(
            "Messages with whole-event encryption (paper 002, Fig. 6)",
            _ACROSS,
            _UP,
            [*lines(1), *_published("paper: total", PAPER_WHOLE, most)],
        ),
        chart(
            "Fewer messages with attribute encryption",
            _ACROSS,
            "per cent fewer",
            [saved, *_published("paper", PAPER_SAVED, most)],
        ),
    )
    return dict(zip(FIGURES, drawn, strict=True))


def _published(name: str, values: dict[int, Any], most: int) -> list[Series]:
    shown = tuple((float(x), float(y)) for x, y in values.items() if x <= most)
    return [Series(name, shown, marks=True)] if shown else []
