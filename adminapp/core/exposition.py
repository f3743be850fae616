"""Prometheus' text format, version 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4"


@dataclass
class Gauge:
    """One metric with all its label sets; without samples nothing of it is known now."""

    name: str
    help: str
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float, **labels: str) -> Gauge:
        """Add a sample."""
        self.samples.append((labels, float(value)))
        return self


def exposition(gauges: Iterable[Gauge]) -> str:
    """All metrics as text; each name has one HELP and one TYPE line, ahead of its samples."""
    return "".join(line + "\n" for gauge in gauges for line in _lines(gauge))


def _lines(gauge: Gauge) -> Iterable[str]:
    yield f"# HELP {gauge.name} {gauge.help}"
    yield f"# TYPE {gauge.name} gauge"
    for labels, value in gauge.samples:
        pairs = ",".join(f'{name}="{_escaped(text)}"' for name, text in sorted(labels.items()))
        shown = str(int(value)) if value.is_integer() else repr(round(value, 3))
        yield f"{gauge.name}{{{pairs}}} {shown}" if pairs else f"{gauge.name} {shown}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
