"""The papers' case studies, played by real clients and agents on a real ActiveMQ.

Each says who receives what with which attributes, and who does not, and what ActiveMQ saw of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from brokers.client import Publisher, Refused
from tasks.local import samples
from tasks.local.activemq import ActiveMQ
from tasks.local.flights import flights
from tests.support.case_studies import Got, Stage, accepted, texts_of

pytestmark = [pytest.mark.activemq, pytest.mark.slow]

# Overlay `c` stands on the broker of `b`: three overlays need three sets of agents, not of brokers.
AGENTS = {"alpha": "a", "beta": "a", "delta": "a", "gamma": "b", "epsilon": "c"}
DOMAINS = ("heating", "flights", "stocks", "police", "beach")


def city_with_a_fire_network(document: dict[str, Any]) -> None:
    """Figure 4 of paper 002: `delta` is of the fire service and has no key of the police."""
    place = (document["object"], document.get("name"))
    if place == ("principal", "engine-4"):
        document["agents"] = {"a": "delta"}
    if place == ("principal", "duty-desk"):
        document["agents"] = {"a": "beta"}
    if place == ("trust-group", "shared-brokers"):
        document["members"] = ["beta", "delta"]


def beach_with_three_overlays(document: dict[str, Any]) -> None:
    """Paper 004: what tells one bather from another is split in three, so that two collude."""
    if document["object"] == "principal":
        document["agents"]["c"] = "epsilon"
    if document["object"] == "split":
        document["groups"] = [
            {"overlay": "a", "attributes": ["age"]},
            {"overlay": "b", "attributes": ["name", "location", "gender"]},
            {"overlay": "c", "attributes": ["occupation"]},
        ]


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, activemq_pair: dict[str, ActiveMQ]
) -> Iterator[Stage]:
    """One control plane with all samples; each case study has its own domain in it."""
    brokers = {**activemq_pair, "c": activemq_pair["b"]}
    made = Stage(tmp_path_factory.mktemp("stage"), brokers, AGENTS)
    try:
        files = [
            made.variant("city", city_with_a_fire_network),
            made.variant("beach", beach_with_three_overlays),
        ]
        made.start(("heating", "flights", "stocks", *files), DOMAINS)
        yield made
    finally:
        made.close()


@pytest.fixture
def stage(shared: Stage) -> Iterator[Stage]:
    """The stage without anybody of the case study before."""
    yield shared
    shared.leave()


def part_of(kind: str, event: dict[str, Any], *names: str) -> Got:
    """An event of which somebody sees only some attributes and learns that there are others."""
    return Got(kind, {name: event[name] for name in names}, frozenset(set(event) - set(names)))


# Paper 000, section 2: the heating company.

HOMES = ("X-104211", "X-104212", "X-104377", "X-105020",
         "X-118834", "X-118901", "X-120007", "X-120448")  # fmt: skip


def test_heating_homes_see_their_own_consumption_and_a_company_sees_averages(stage: Stage) -> None:
    everybody = (*HOMES, "heat-insight")
    for name in everybody:
        stage.subscriber(name).subscribe("Telemetry", timeout=30)
    # Asking for somebody else's readings, or for those of single homes, brings nothing.
    stage.subscriber(HOMES[0]).subscribe("Consumption", f'consumer == "{HOMES[4]}"', timeout=30)
    stage.subscriber("heat-insight").subscribe("WaterTemperature", timeout=30)
    gateway = stage.publisher("meter-gateway")
    events = list(samples.telemetry(HOMES, 7))
    assert len(events) == 2 * len(HOMES) + 1
    ids = accepted(gateway.publish_nowait(each.type, each.values) for each in events)
    expected: dict[str, dict[str, Got]] = defaultdict(dict)
    for number, each in zip(ids, events, strict=True):
        receiver = each.values.get("consumer", "heat-insight")
        expected[str(receiver)][number] = Got(each.type, each.values)
    assert {name: len(wanted) for name, wanted in expected.items()} == {
        **dict.fromkeys(HOMES, 2),
        "heat-insight": 1,
    }
    stage.check(expected)
    stage.check_capture(texts_of("heating", (each.values for each in events)))


# The flights of New York on the evening of 31 January 2013, when a storm held many up.

MONTH, DAY, HOUR = 1, 31, "18"
AIRLINES = ("UA", "B6", "AA", "DL", "EV", "US", "WN", "MQ")
SEEN_BY_AUTHORITY = ("flight", "carrier", "origin", "dest", "hour", "delay", "distance")


def test_flights_of_an_hour_reach_their_airline_and_late_ones_the_authority(stage: Stage) -> None:
    rows = [row for row in flights(MONTH, DAY) if row["hour"] == HOUR]
    late = [row for row in rows if int(row.get("dep_delay", 0)) > 120]
    assert len(rows) == 65
    assert len(late) > 8
    for name in (*AIRLINES, "delay-authority"):
        stage.subscriber(name).subscribe("Flight", timeout=30)
    events = list(samples.flight_events(rows))
    ids = accepted(
        stage.publisher(each.publisher).publish_nowait(each.type, each.values) for each in events
    )
    # Read off the data's rows: neither a policy nor the policy engine has a say in it.
    expected: dict[str, dict[str, Got]] = defaultdict(dict)
    for number, each in zip(ids, events, strict=True):
        carrier = str(each.values["carrier"])
        if carrier in AIRLINES:
            expected[carrier][number] = Got(each.type, each.values)
        if int(each.values.get("delay", 0)) > 120:
            seen = {name: each.values[name] for name in SEEN_BY_AUTHORITY}
            expected["delay-authority"][number] = Got(each.type, seen, frozenset({"tailnum"}))
    departures = [each for each in expected["delay-authority"].values() if each.type == "Departure"]
    assert len(departures) == len(late)
    assert set(expected) > set(AIRLINES) - {"WN"}
    stage.check(expected)
    # An airport does not speak for another one.
    with pytest.raises(Refused) as refused:
        stage.publisher("ewr").publish("Departure", {**events[0].values, "origin": "JFK"})
    assert refused.value.reason == "not-authorised"
    stage.check({})
    stage.check_capture(texts_of("flights", (each.values for each in events)))


# Paper 001: the financial news service, whose brokers read neither quotes nor filters over them.

QUOTES = [
    {"exchange": "NASDAQ", "sym": "IBM", "price": 12, "volume": 90_500},
    {"exchange": "NASDAQ", "sym": "IBM", "price": 9, "volume": 40_300},
    {"exchange": "NYSE", "sym": "XRX", "price": 77, "volume": 150_700},
]
STORIES = [
    {"sym": "IBM", "headline": "IBM beats forecasts", "text": "Mainframes sell like never."},
    {"sym": "XRX", "headline": "Xerox splits shares", "text": "Two for one, says the board."},
    {"sym": "IBM", "headline": "IBM opens laboratory", "text": "It will study polymers."},
]


def test_stocks_quotes_are_matched_by_brokers_that_read_neither_them_nor_filters(
    stage: Stage,
) -> None:
    stage.subscriber("small-investor").subscribe("Quote", 'sym == "IBM" && price > 10', timeout=30)
    stage.subscriber("pension-fund").subscribe("Quote", "volume >= 50000", timeout=30)
    ids = accepted(
        stage.publisher(quote["exchange"].lower()).publish_nowait("Quote", quote)
        for quote in QUOTES
    )
    got = {number: Got("Quote", quote) for number, quote in zip(ids, QUOTES, strict=True)}
    ibm, _, xerox = ids
    stage.check(
        {
            "small-investor": {ibm: got[ibm]},
            "pension-fund": {ibm: got[ibm], xerox: got[xerox]},
        }
    )
    with pytest.raises(Refused) as refused:
        stage.publisher("nasdaq").publish("Quote", QUOTES[2], timeout=20)
    assert refused.value.reason == "not-authorised"
    stage.check({})
    # Both agents together read nothing of any quote.
    known = stage.knowledge("stocks", ["alpha", "beta"])
    assert [known[number] for number in ids] == [{}, {}, {}]
    stage.check_capture(texts_of("stocks", QUOTES))


def test_stocks_premium_customers_read_stories_and_others_headlines(stage: Stage) -> None:
    for name in ("small-investor", "pension-fund"):
        stage.subscriber(name).subscribe("News", 'sym == "IBM"', timeout=30)
    # A filter sees no more than its owner: the text is not there for a small investor.
    stage.subscriber("small-investor").subscribe("News", "has(text)", timeout=30)
    newswire = stage.publisher("newswire")
    ids = accepted(newswire.publish_nowait("News", story) for story in STORIES)
    wanted = [(i, s) for i, s in zip(ids, STORIES, strict=True) if s["sym"] == "IBM"]
    assert len(wanted) == 2
    stage.check(
        {
            "small-investor": {i: part_of("News", s, "sym", "headline") for i, s in wanted},
            "pension-fund": {i: Got("News", s) for i, s in wanted},
        }
    )
    # Agencies sell stories and no quotes, exchanges quotes and no stories.
    for name, kind, values in (("newswire", "Quote", QUOTES[0]), ("nasdaq", "News", STORIES[0])):
        with pytest.raises(Refused):
            stage.publisher(name).publish(kind, values, timeout=20)
    stage.check({})
    stage.check_capture(texts_of("stocks", STORIES))


# Paper 004: lifeguards, and overlays that put together what they see.

BATHERS = [
    {"name": "Alice Whitmore", "location": "north", "age": 18, "gender": "female",
     "occupation": "lifeguard trainee"},
    {"name": "Robert Ashdown", "location": "south", "age": 41, "gender": "male",
     "occupation": "policeman"},
    {"name": "Charles Fenwick", "location": "north", "age": 24, "gender": "male",
     "occupation": "student"},
]  # fmt: skip
TELLING = {"age", "gender", "occupation"}


def test_lifeguards_on_duty_see_bathers_whom_colluding_overlays_cannot_tell(stage: Stage) -> None:
    for name in ("tower-north", "tower-south"):
        stage.subscriber(name).subscribe("Position", timeout=30)
    handles = [
        stage.publisher(f"wristbands-{bather['location']}").publish_nowait("Position", bather)
        for bather in BATHERS
    ]
    ids = accepted(handles)
    north = {
        number: Got("Position", bather)
        for number, bather in zip(ids, BATHERS, strict=True)
        if bather["location"] == "north"
    }
    assert len(north) == 2
    # The tower in the south is trained and not on duty.
    stage.check({"tower-north": north})
    # A wristband speaks for its own section alone.
    with pytest.raises(Refused) as refused:
        stage.publisher("wristbands-south").publish("Position", BATHERS[0], timeout=20)
    assert refused.value.reason == "not-authorised"
    stage.check({})
    for overlays in (("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c")):
        known = stage.knowledge("beach", [n for n, o in AGENTS.items() if o in overlays])
        assert set(ids) <= set(known), overlays
        for number in ids:
            # INVARIANT: two of three overlays lack a part of what tells a person from another.
            assert not set(known[number]) >= TELLING, overlays
    # Nor do all of them together know a name: it is sealed for lifeguards.
    everybody = stage.knowledge("beach", list(AGENTS))
    for number, bather in zip(ids, BATHERS, strict=True):
        assert everybody[number] == {n: value for n, value in bather.items() if n != "name"}
    stage.check_capture(texts_of("beach", BATHERS))


# Paper 002, section 5: a break-in, told to police, fire service and press over broken links.

BREAK_IN = {"zone": "university", "severity": 6, "location": "West Cambridge", "polCode": 3,
            "premises": "William Gates Building", "isDrill": False}  # fmt: skip
BURGLARY = {"zone": "centre", "severity": 4, "location": "Centre", "polCode": 2,
            "premises": "Market Square 3", "isDrill": False}  # fmt: skip
BLAZE = {"zone": "west", "severity": 9, "location": "Madingley Road", "polCode": 8,
         "isDrill": False}  # fmt: skip
DRILL = {"zone": "north", "severity": 1, "location": "Parkside", "polCode": 0,
         "isDrill": True}  # fmt: skip
PUBLIC = ("zone", "severity")
OF_OFFICERS = (*PUBLIC, "location", "polCode", "premises")


def burglary(event: dict[str, Any], number: str, officer: str) -> dict[str, dict[str, Got]]:
    """Who gets what of a burglary in an officer's area; its place is the police's alone."""
    public = part_of("BurglaryEvent", event, *PUBLIC)
    return {
        officer: {number: part_of("BurglaryEvent", event, *OF_OFFICERS)},
        "engine-4": {number: public},
        "evening-news": {number: public},
    }


def city(stage: Stage) -> Publisher:
    """Everybody on duty, as in figure 4; the duty officer's publisher."""
    wishes = {
        "officer-1": ("BurglaryEvent", "polCode < 4"),
        "officer-2": ("BurglaryEvent", 'location == "West Cambridge"'),
        "training-centre": ("PoliceEvent", "isDrill == true"),
        "engine-4": ("PoliceEvent", ""),
        "evening-news": ("PoliceEvent", ""),
    }
    for name, (kind, text) in wishes.items():
        subscriber = stage.subscriber(name)
        subscriber.wait_ready(60, domain="police")
        subscriber.subscribe(kind, text, domain="police", timeout=30)
    return stage.publisher("duty-desk")


def test_a_break_in_is_told_to_police_fire_and_press_each_their_part(stage: Stage) -> None:
    desk = city(stage)
    events = [("BurglaryEvent", BREAK_IN), ("BurglaryEvent", BURGLARY),
              ("PoliceEvent", BLAZE), ("PoliceEvent", DRILL)]  # fmt: skip
    first, second, blaze, drill = accepted(
        desk.publish_nowait(kind, values) for kind, values in events
    )
    expected = burglary(BREAK_IN, first, "officer-2")
    for name, wanted in burglary(BURGLARY, second, "officer-1").items():
        expected.setdefault(name, {}).update(wanted)
    for number, event in ((blaze, BLAZE), (drill, DRILL)):
        # The place of other events is shared with the fire service.
        expected["engine-4"][number] = part_of("PoliceEvent", event, *PUBLIC, "location")
        expected["evening-news"][number] = part_of("PoliceEvent", event, *PUBLIC)
    expected["training-centre"] = {drill: Got("PoliceEvent", DRILL)}
    stage.check(expected)
    # Burglaries went through the fire service's agent, which cannot read what it passed on.
    assert stage.status("delta", "police")["attribute_keys"] == ["fire"]
    known = stage.knowledge("police", ["delta"])
    assert [known[number] for number in (first, second)] == [
        {name: event[name] for name in PUBLIC} for event in (BREAK_IN, BURGLARY)
    ]
    texts = texts_of("city", [BREAK_IN, BURGLARY, BLAZE, DRILL])
    stage.check_capture(texts)


def test_a_link_of_the_city_breaks_and_heals_and_nothing_is_lost_or_doubled(stage: Stage) -> None:
    desk = city(stage)
    # Officer 1's agent, which the press has as well, is cut off from everybody.
    stage.links["alpha-a"].cut()
    (number,) = accepted([desk.publish_nowait("BurglaryEvent", BURGLARY)])
    expected = burglary(BURGLARY, number, "officer-1")
    stage.check({"engine-4": expected["engine-4"]})
    stage.links["alpha-a"].heal()
    stage.check({name: expected[name] for name in ("officer-1", "evening-news")})
    # The fire service's agent, which burglaries pass, is cut off: they go round it.
    stage.links["delta-a"].cut()
    (number,) = accepted([desk.publish_nowait("BurglaryEvent", BURGLARY)])
    expected = burglary(BURGLARY, number, "officer-1")
    stage.check({name: expected[name] for name in ("officer-1", "evening-news")})
    stage.links["delta-a"].heal()
    stage.check({"engine-4": expected["engine-4"]})
