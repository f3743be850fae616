"""Prometheus' text format, version 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4"


@dataclass
class Family:
    """One metric with all its label sets.

    Args:
        name: as in `portcullis_events_total`.
        kind: its type.
        help: what it counts or shows, one sentence.
        samples: (labels, value) pairs.
    """

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float, **labels: str) -> None:
        """Add a sample."""
        self.samples.append((labels, value))


def exposition(families: Iterable[Family]) -> str:
    """All families as text; each name has one HELP and one TYPE line, ahead of its samples."""
    return "".join(line + "\n" for family in families for line in _lines(family))


def _lines(family: Family) -> Iterable[str]:
    text = family.help.replace("\\", "\\\\").replace("\n", "\\n")
    yield f"# HELP {family.name} {text}"
    yield f"# TYPE {family.name} {family.kind}"
    for labels, value in family.samples:
        pairs = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        yield (
            f"{family.name}{{{pairs}}} {_number(value)}"
            if pairs
            else (f"{family.name} {_number(value)}")
        )


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
