"""Simulations: the same seed gives the same history, scenarios are checked, charts are drawn."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from brokers.simulation import figures002
from brokers.simulation.__main__ import main
from brokers.simulation.chance import Chance
from brokers.simulation.drawing import Series, chart
from brokers.simulation.paper002 import GROUPS, Setting, Study, Subscriber, simulate
from brokers.simulation.scenario import NAMED, Scenario, ScenarioError, load, play, smaller
from policyengine.bundles import rendezvous

SMALL = Scenario(agents=5, publishers=2, subscribers=12, events=15, seconds=10.0, keyless=1)
STORMY = smaller(
    SMALL, loss=0.02, longest_delay=0.2, clock_error=30.0, agent_crashes=3, client_crashes=3,
    broker_crashes=1, partitions=1, longest_outage=8.0,
)  # fmt: skip
SVG = "{http://www.w3.org/2000/svg}"


def test_a_seed_decides_everything() -> None:
    first, again = play(STORMY, "seed"), play(STORMY, "seed")
    assert first.history.lines == again.history.lines
    assert first.report() == again.report()
    assert play(STORMY, "another").history.digest != first.history.digest
    assert first.history.counts["crashed"] >= 6


def test_trouble_changes_nothing_of_what_is_received() -> None:
    calm, storm = play(SMALL, "seed"), play(STORMY, "seed")
    for world in (calm, storm):
        assert all(not client.handled.doubles for client in world.clients.values())
    forgotten = {p.identifier for p in storm.publications if p.state == "forgotten"}
    for one, other in zip(calm.publications, storm.publications, strict=True):
        assert one.values == other.values
        if other.identifier in forgotten:
            continue
        receivers = [
            {n for n, c in world.clients.items() if publication.identifier in c.handled.events}
            for world, publication in ((calm, one), (storm, other))
        ]
        assert receivers[0] == receivers[1]
    assert any(client.handled.events for client in calm.clients.values())


def test_events_go_to_a_rendezvous_agent_and_on_only_where_they_are_wanted() -> None:
    world = play(smaller(SMALL, agents=8, subscribers=4), "seed")
    counted = world.counters()
    assert counted["distributed"] == SMALL.events
    assert counted["saved"] > 0
    assert world.sent["hop"] < SMALL.events * 7


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "a scenario is an object of names and numbers"),
        ({"agnets": 3}, "`agnets` is no setting of a scenario"),
        ({"agents": 0}, "`agents` must be at least 1"),
        ({"agents": True}, "`agents` must be a whole number from 0, not `True`"),
        ({"events": 1.5}, "`events` must be a whole number from 0, not `1.5`"),
        ({"loss": -1}, "`loss` must be a number from 0, not `-1`"),
        ({"loss": 2}, "`loss` is a probability, at most 1"),
        ({"agents": 2, "keyless": 2}, "`keyless` must be fewer than `agents`"),
        ({"shortest_delay": 1}, "`shortest_delay` must not be above `longest_delay`"),
    ],
)
def test_scenarios_that_make_no_sense_are_refused(document: object, reason: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        Scenario.from_json(document)
    assert str(refused.value) == reason


def test_scenarios_are_read_from_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(SMALL.to_json()), encoding="utf-8")
    assert load(str(path)) == SMALL
    assert load("storm") == NAMED["storm"]
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ScenarioError, match="is not JSON"):
        load(str(path))
    with pytest.raises(ScenarioError, match="neither a file nor one of"):
        load("nothing")


def test_the_command_writes_report_and_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario, report, history = (tmp_path / name for name in ("s.json", "r.json", "h.jsonl"))
    scenario.write_text(json.dumps(smaller(SMALL, events=3).to_json()), encoding="utf-8")
    asked = [str(scenario), "--report", str(report), "--history", str(history), "--quiet"]
    assert main(asked) == 0
    written = json.loads(report.read_text(encoding="utf-8"))
    assert written == json.loads(capsys.readouterr().out)
    assert written["publications"] == {"accepted": 3}
    lines = [json.loads(line) for line in history.read_text(encoding="utf-8").splitlines()]
    assert sum(line["what"] == "publishes" for line in lines) == 3


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (["nothing"], "`nothing` is neither a file nor one of"),
        (["paper002", "--points", "x"], "`x` is no list of whole numbers"),
        (["paper002", "--events", "0"], "`--events` must be at least 1"),
        (["paper002", "--history", "h"], "`--history` is for scenarios"),
        (["calm", "--report", "/nowhere/r"], "/nowhere/r: No such file"),
    ],
)
def test_the_command_says_what_is_wrong(
    asked: list[str],
    reason: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(NAMED, "calm", smaller(SMALL, events=1))
    assert main([*asked, "--quiet"]) == 1
    assert reason in capsys.readouterr().err


# the simulation of paper 002, section 6

STUDY = Study(agents=8, publishers=3, events=12)


def _expected_hops(setting: Setting, *, whole: bool) -> dict[str, int]:
    """Hops by group, counted from filters and rendezvous agents alone."""
    hops = dict.fromkeys(GROUPS, 0)
    for publisher, values in setting.events:
        home = setting.publishers[publisher]
        for group in range(3) if whole else (2,):
            kind = f"PoliceEvent{GROUPS[group]}" if whole else "PoliceEvent"
            carrier = rendezvous("police", kind, setting.agents)[0]
            met: dict[str, int] = {}
            for one in setting.subscribers:
                if _meets(one, values) and (not whole or one.group == group):
                    met[one.home] = max(met.get(one.home, 0), one.group)
            # To the rendezvous agent, and from there to all that want it but the publisher's.
            to = [carrier] if carrier != home else []
            to += [agent for agent in met if agent not in (home, carrier)]
            for agent in to:
                hops[GROUPS[group if whole else met.get(agent, 0)]] += 1
    return hops


def _meets(one: Subscriber, values: object) -> bool:
    assert isinstance(values, dict)
    return all(values[name] == value for name, value in one.wants.items())


def test_the_papers_simulation_counts_what_filters_and_rendezvous_say() -> None:
    for subscribers in (12, 40):
        found = simulate(STUDY, subscribers, "seed")
        setting = Setting.draw(STUDY, subscribers, Chance(f"seed/{subscribers}/0").child("setting"))
        assert found.attributes.hops == _expected_hops(setting, whole=False)
        assert found.whole.hops == _expected_hops(setting, whole=True)
        assert found.attributes.total < found.whole.total
        assert found.attributes.deliveries == found.whole.deliveries > 0


def test_subscriptions_have_the_papers_shares() -> None:
    setting = Setting.draw(Study(), 2000, Chance("x"))
    groups = [one.group for one in setting.subscribers]
    assert [groups.count(group) for group in range(3)] == [1200, 700, 100]
    assert (len(setting.agents), len(setting.publishers), len(setting.events)) == (50, 10, 1000)
    assert {tuple(sorted(one.wants)) for one in setting.subscribers} == {
        ("severity",), ("location",), ("isDrill", "location"),
    }  # fmt: skip


def test_the_papers_simulation_draws_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    asked = ["--points", "4,8", "--events", "3", "--agents", "4", "--plots", str(tmp_path)]
    assert main(["paper002", *asked, "--report", str(report), "--quiet"]) == 0
    printed = capsys.readouterr().out
    points = json.loads(report.read_text(encoding="utf-8"))["points"]
    assert [one["subscribers"] for one in points] == [4, 8]
    for one in points:
        assert f"| {one['saved_percent']:.1f} % |" in printed
    for name in figures002.FIGURES:
        assert ElementTree.parse(tmp_path / name).getroot().tag == f"{SVG}svg"


def test_charts_put_points_where_the_axes_say() -> None:
    drawn = chart(
        "a < b", "x", "y",
        [
            Series("ours", ((0, 0), (50, 300), (100, 600))),
            Series("paper", ((100, 600),), marks=True),
        ],
    )  # fmt: skip
    root = ElementTree.fromstring(drawn)
    assert root.findtext(f"{SVG}title") == "a < b"
    line = root.find(f"{SVG}polyline")
    assert line is not None
    (x0, y0), (x1, y1), (x2, y2) = (
        tuple(float(each) for each in place.split(",")) for place in line.get("points", "").split()
    )
    assert x2 - x1 == pytest.approx(x1 - x0)
    assert y2 - y1 == pytest.approx(y1 - y0)
    assert (x2 > x0, y2 < y0) == (True, True)
    texts = [one.text for one in root.iter(f"{SVG}text")]
    assert {"0", "100", "600", "x", "y", "ours", "paper"} <= set(texts)
    assert chart("t", "x", "y", [Series("none", ((0, 0),))]).count("<circle") == 1
