"""The papers' case studies, played by real clients and agents on a real ActiveMQ.

Each says who receives what with which attributes, and who does not, and what ActiveMQ saw of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from brokers.client import Refused
from tasks.local import samples
from tasks.local.activemq import ActiveMQ
from tasks.local.flights import flights
from tests.support.case_studies import Got, Stage, accepted, texts_of

pytestmark = [pytest.mark.activemq, pytest.mark.slow]

AGENTS = {"alpha": "a", "beta": "a", "gamma": "b"}
DOMAINS = ("heating", "flights", "stocks")


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, activemq_pair: dict[str, ActiveMQ]
) -> Iterator[Stage]:
    """One control plane with all samples; each case study has its own domain in it."""
    made = Stage(tmp_path_factory.mktemp("stage"), activemq_pair, AGENTS)
    try:
        made.start(DOMAINS, DOMAINS)
        yield made
    finally:
        made.close()


@pytest.fixture
def stage(shared: Stage) -> Iterator[Stage]:
    """The stage without anybody of the case study before."""
    yield shared
    shared.leave()


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


# Paper 001: the financial news service, and what only premium customers may read.


def test_stocks_premium_customers_read_stories_and_others_headlines(stage: Stage) -> None:
    for name in ("small-investor", "pension-fund"):
        stage.subscriber(name).subscribe("News", 'sym == "IBM"', timeout=30)
    # A filter sees no more than its owner: the text is not there for a small investor.
    stage.subscriber("small-investor").subscribe("News", "has(text)", timeout=30)
    stories = [
        {"sym": "IBM", "headline": "IBM beats forecasts", "text": "Mainframes sell like never."},
        {"sym": "XRX", "headline": "Xerox splits shares", "text": "Two for one, says the board."},
        {"sym": "IBM", "headline": "IBM opens laboratory", "text": "It will study polymers."},
    ]
    newswire = stage.publisher("newswire")
    ids = accepted(newswire.publish_nowait("News", story) for story in stories)
    wanted = [(i, s) for i, s in zip(ids, stories, strict=True) if s["sym"] == "IBM"]
    assert len(wanted) == 2
    headlines = {
        number: Got(
            "News", {n: story[n] for n in ("sym", "headline")}, frozenset({"text"})
        )
        for number, story in wanted
    }  # fmt: skip
    whole = {number: Got("News", story) for number, story in wanted}
    stage.check({"small-investor": headlines, "pension-fund": whole})
    # Agencies sell stories and no quotes, exchanges quotes and no stories.
    quote = {"exchange": "NASDAQ", "sym": "IBM", "price": 12, "volume": 100}
    for name, kind, values in (("newswire", "Quote", quote), ("nasdaq", "News", stories[0])):
        with pytest.raises(Refused):
            stage.publisher(name).publish(kind, values, timeout=20)
    stage.check({})
    stage.check_capture(texts_of("stocks", stories))
