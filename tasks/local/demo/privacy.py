"""Step 6: attributes get classes, two of them part ways, subscribers see whole events again."""

from __future__ import annotations

from typing import Any

from tasks.local.demo.exchange import exchange
from tasks.local.demo.report import Step
from tasks.local.demo.story import selection
from tasks.local.demo.world import World, require

_DOMAIN = "flights"
_QUASI = {"dest": "b", "hour": "a"}
_REASON = "with the other one it singles out a flight"


def split(step: Step, world: World) -> None:
    """6. Classified in the console, split over two brokers, put together at the subscriber."""
    before = _taken(world, "gamma")
    _classify(step, world)
    _split(step, world)
    world.settle(_DOMAIN)
    names = [
        a["name"] for t in world.documents[_DOMAIN]["event_types"] for a in t.get("attributes", [])
    ]
    first = [name for name in names if _QUASI.get(name, "a") == "a"]
    world.oracle.split(_DOMAIN, "Flight", [("a", first), ("b", ["dest"])])
    events = world.remaining(selection(1, 4))
    exchange(step, world, "flights in two parts", events)
    parts = _taken(world, "gamma") - before
    step.equal("parts that went over the second broker", parts, len(events))


def _classify(step: Step, world: World) -> None:
    rows = {row["attribute"]: row for row in world.rows(f"classifications?domain={_DOMAIN}")}
    for name in _QUASI:
        _save(world, rows[name], "quasi-identifying")
    rows = {row["attribute"]: row for row in world.rows(f"classifications?domain={_DOMAIN}")}
    classes = {name: rows[name]["pia_class"] for name in _QUASI}
    step.equal("classes after the forms", classes, dict.fromkeys(_QUASI, "quasi-identifying"))
    page = require(world.manager.get(f"/d/{_DOMAIN}/classification/"), 200)
    form = page.form(action=f"/classification/{rows['carrier']['id']}/")
    refused = world.manager.submit(form, {"pia_class": "identifying", "reason": _REASON})
    step.equal("an identifying attribute without a key is refused", refused.status, 422)


def _save(world: World, row: dict[str, Any], pia_class: str) -> None:
    page = require(world.manager.get(f"/d/{_DOMAIN}/classification/"), 200)
    form = page.form(action=f"/classification/{row['id']}/")
    require(world.manager.submit(form, {"pia_class": pia_class, "reason": _REASON}), 200)


def _split(step: Step, world: World) -> None:
    address = f"/d/{_DOMAIN}/splits/Flight/"
    form = world.manager.get(address).form(containing="overlay-dest")
    half = world.manager.submit(form, {"overlay-hour": "a"})
    step.equal("a split that leaves one of them without a place is refused", half.status, 422)
    fields = {f"overlay-{name}": overlay for name, overlay in _QUASI.items()}
    done = world.manager.submit(form, fields)
    step.true("the split is accepted", done.status == 200 and done.url.endswith(address))


def _taken(world: World, agent: str) -> int:
    """Publications that an agent admitted."""
    counters = world.agent_status(agent)["domains"][_DOMAIN]["counters"]
    return int(counters.get("admitted", 0))
