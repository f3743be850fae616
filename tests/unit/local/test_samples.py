"""Sample events are real flights and repeatable telemetry, as the sample files declare them."""

from __future__ import annotations

import functools

from policyengine.attributes import AttributeType
from tasks.local import samples


@functools.cache
def _declared(domain: str, kind: str) -> dict[str, AttributeType]:
    document = samples.organisations()[domain]
    types = {entry["name"]: entry for entry in document["event_types"]}
    found: dict[str, AttributeType] = {}
    name: str | None = kind
    while name is not None:
        for attribute in types[name].get("attributes", []):
            found[attribute["name"]] = AttributeType.from_json(attribute["type"])
        name = types[name].get("parent")
    return found


def test_flights_of_a_day_are_the_package_s() -> None:
    events = samples.day(1, 1)
    assert len(events) == 842 + 837
    first = events[0]
    assert (first.type, first.publisher) == ("Departure", "ewr")
    assert first.values == {
        "flight": 1545,
        "carrier": "UA",
        "origin": "EWR",
        "dest": "IAH",
        "hour": 5,
        "distance": 1400,
        "delay": 2,
        "tailnum": "N14228",
    }


def test_a_cancelled_flight_has_no_delay_and_no_arrival() -> None:
    cancelled = [event for event in samples.day(1, 1) if "delay" not in event.values]
    assert cancelled
    never_left = [event for event in cancelled if event.type == "Departure"]
    assert len(never_left) == 4
    arrivals = {
        (event.values["carrier"], event.values["flight"])
        for event in samples.day(1, 1)
        if event.type == "Arrival"
    }
    assert not {(e.values["carrier"], e.values["flight"]) for e in never_left} & arrivals


def test_every_event_fits_its_type() -> None:
    homes = samples.consumers(samples.organisations()["heating"])
    for event in (*samples.day(1, 2), *samples.telemetry(homes, 30)):
        declared = _declared(event.domain, event.type)
        assert set(event.values) <= set(declared)
        for name, value in event.values.items():
            declared[name].check(value, name)


def test_telemetry_can_be_repeated() -> None:
    homes = ["X-1", "X-2"]
    assert list(samples.telemetry(homes, 5)) == list(samples.telemetry(homes, 5))
    kinds = [event.type for event in samples.telemetry(homes, 5)]
    assert kinds == ["WaterTemperature", "WaterPressure"] * 2 + ["Statistics"]
