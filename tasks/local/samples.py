"""The sample organisations' files, and events that their publishers would send."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from tasks.local.flights import Row, flights
from tasks.local.layout import ROOT

NAMES = ("heating", "flights")
SECTIONS = {
    "domain": "domains",
    "attribute-key": "attribute_keys",
    "subject-attribute": "subject_attributes",
    "event-type": "event_types",
    "principal": "principals",
    "trust-group": "trust_groups",
    "policy": "policies",
}
Value = str | int | float | bool
Document = dict[str, Any]


@dataclass(frozen=True)
class SampleEvent:
    """One event as its publisher has it.

    Args:
        domain: name of the domain.
        publisher: name of the principal that publishes it.
        type: event type.
        values: attribute name -> value.
    """

    domain: str
    publisher: str
    type: str
    values: dict[str, Value]


def organisations() -> dict[str, Document]:
    """The sample files, by the domain's name: for each sort of object the list of them."""
    folder = ROOT / "adminapp" / "samples"
    return {name: _sections((folder / f"{name}.yaml").read_text()) for name in NAMES}


def _sections(text: str) -> Document:
    found: Document = {}
    for item in yaml.safe_load_all(text):
        found.setdefault(SECTIONS[item["object"]], []).append(item)
    return found


def flight_events(rows: Iterable[Row]) -> Iterator[SampleEvent]:
    """A departure for each row and, where it arrived, an arrival."""
    for row in rows:
        yield _flight("Departure", row, row.get("dep_delay"), row.get("dep_time"))
        if "arr_time" in row:
            yield _flight("Arrival", row, row.get("arr_delay"), row["arr_time"])


def day(month: int, number: int) -> list[SampleEvent]:
    """All departures and arrivals of one day of 2013."""
    return list(flight_events(flights(month, number)))


def _flight(kind: str, row: Row, delay: str | None, time: str | None) -> SampleEvent:
    values: dict[str, Value] = {
        "flight": int(row["flight"]),
        "carrier": row["carrier"],
        "origin": row["origin"],
        "dest": row["dest"],
        "hour": int(time) // 100 if time else int(row["hour"]),
        "distance": int(row["distance"]),
    }
    if delay is not None:
        values["delay"] = int(delay)
    if "tailnum" in row:
        values["tailnum"] = row["tailnum"]
    return SampleEvent("flights", row["origin"].lower(), kind, values)


def consumers(document: Document) -> list[str]:
    """The customers of the heating company."""
    return [
        principal["attributes"]["consumer"]
        for principal in document["principals"]
        if "consumer" in principal["attributes"]
    ]


def telemetry(names: Iterable[str], hour: int) -> Iterator[SampleEvent]:
    """What the meter gateway reports in one hour: two readings a home, then the averages.

    The readings follow from home and hour alone, so that a run can be repeated.
    """
    temperatures = []
    for name in names:
        number = sum(map(ord, name))
        temperature = 18.0 + (number * 7 + hour * 3) % 60 / 10
        temperatures.append(temperature)
        common: dict[str, Value] = {"consumer": name, "hour": hour % 24}
        yield _reading("WaterTemperature", {**common, "value": temperature + 30, "unit": "celsius"})
        yield _reading("WaterPressure", {**common, "value": 1.0 + number % 20 / 10, "unit": "bar"})
    yield _reading(
        "Statistics",
        {
            "period": f"hour-{hour % 24:02}",
            "average": round(sum(temperatures) / len(temperatures), 2),
            "homes": len(temperatures),
        },
    )


def _reading(kind: str, values: dict[str, Value]) -> SampleEvent:
    return SampleEvent("heating", "meter-gateway", kind, values)
