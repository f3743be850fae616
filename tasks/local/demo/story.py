"""Steps 1 to 4: organisations, encodings, events, an edited policy."""

from __future__ import annotations

import itertools
from typing import Any

from tasks.local import samples
from tasks.local.demo.browser import Browser
from tasks.local.demo.exchange import exchange
from tasks.local.demo.report import Step
from tasks.local.demo.world import MANAGER, World, require
from tasks.local.samples import SampleEvent

FLIGHTS = 90
_SECTIONS = {
    "policies": "policies",
    "principals": "principals",
    "event_types": "event-types",
    "attribute_keys": "attribute-keys",
    "subject_attributes": "subject-attributes",
}


def organisations(step: Step, world: World) -> None:
    """1. The sample files are in the database as they stand, and loading again changes nothing."""
    for domain, document in world.documents.items():
        expected = {name: sorted(e["name"] for e in document[name]) for name in _SECTIONS}
        seen = {
            name: sorted(row["name"] for row in world.rows(f"{path}?domain={domain}"))
            for name, path in _SECTIONS.items()
        }
        step.equal(f"{domain} stands as in its file", seen, expected)
    before = {domain: world.revision(domain) for domain in world.documents}
    files = [f"adminapp/samples/{domain}.yaml" for domain in world.documents]
    world.stack.command("load-again", "manage.py", "load_organisation", *files)
    after = {domain: world.revision(domain) for domain in world.documents}
    step.equal("loading the files again makes no new revision", after, before)
    pages = {
        path: world.manager.get(path).status
        for path in ("/", "/domains/", "/d/heating/event-types/", "/d/flights/policies/", "/audit/")
    }
    step.equal(f"the console shows them to {MANAGER}", pages, dict.fromkeys(pages, 200))
    stranger = Browser(world.layout.address)
    step.true(
        "and to nobody who has not signed in",
        "/sign-in/" in stranger.get("/d/flights/policies/").url,
    )


def distribution(step: Step, world: World) -> None:
    """2. Encoded, signed, sealed, relayed, applied, acknowledged, and shown."""
    world.clients.open()
    for domain in world.documents:
        world.settle(domain)
        revision = world.revision(domain)
        expected = dict.fromkeys(sorted(world.agents_of(domain)), revision)
        held = dict(sorted(world.acknowledged(domain).items()))
        step.equal(f"{domain}: revision acknowledged by each agent", held, expected)
        own = {
            name: world.agent_status(name)["domains"][domain]["revision"]
            for name in world.agents_of(domain)
        }
        step.equal(f"{domain}: revision in force by the agents' own word", own, expected)
    page = world.manager.get("/agents/").words
    for domain in world.documents:
        step.true(
            f"the console's page of agents shows revision {world.revision(domain)} of {domain}",
            domain in page and str(world.revision(domain)) in page,
        )
    view = world.manager.get("/d/flights/policies/p/own%20flights/broker/").words
    step.true("a policy's page shows what the broker sees of it", "bits set" in view)
    world.clients.subscribe(world.wishes)
    step.equal(
        "subscriptions that agents accepted",
        sum(len(inbox.subscriber.subscriptions) for inbox in world.clients.inboxes.values()),
        sum(map(len, world.wishes.values())),
    )


def events(step: Step, world: World) -> None:
    """3. Real flights and telemetry; everybody receives exactly what the oracle says."""
    homes = samples.consumers(world.documents["heating"])
    exchange(step, world, "heating", list(samples.telemetry(homes, 7)))
    flights = selection(1, 1)
    late = sum(int(event.values.get("delay", 0)) > 120 for event in flights)
    step.true(f"the flights are real ones, {late} of them more than two hours late", late > 5)
    exchange(step, world, "flights", flights)
    carrying = sum("tailnum" in event.values for event in flights)
    holders = {
        name: "airframe" in world.agent_status(name)["domains"]["flights"]["attribute_keys"]
        for name in sorted(world.agents_of("flights"))
    }
    step.equal(
        f"agents that hold the key of tail numbers ({carrying} of the flights carry one)",
        holders,
        {"alpha": True, "beta": True, "gamma": False},
    )
    pretender = {**flights[0].values, "origin": "JFK"}
    claim = SampleEvent("flights", "ewr", "Departure", pretender)
    exchange(step, world, "an airport that speaks for another", [claim])


def crash(step: Step, world: World) -> None:
    """3, continued: an agent is killed with events on their way and comes back."""

    def crash_alpha() -> None:
        world.kill("alpha")
        step.true("alpha was killed (kill -9)", not world.part("alpha").child.running)
        world.restart("alpha")

    exchange(step, world, "flights over the crash of alpha", selection(1, 2), during=crash_alpha)


def edited_policy(step: Step, world: World) -> None:
    """4. A manager edits a policy in the console: form, validation, plan, apply."""
    address = "/d/flights/policies/p/long%20delays/"
    expression = 'subject.type == "authority" && event.delay > 60'
    wrong = expression.replace("event.delay", "event.dealy")
    form = world.manager.get(f"{address}edit/").form(containing="expression")
    refused = world.manager.submit(form, {"expression": wrong})
    step.equal("a wrong expression is refused", refused.status, 422)
    place = f'data-place="{wrong.index("event.dealy")}"'
    step.true("and the form points at the place", place in refused.text, place)
    step.true("and says what may have been meant", "event.delay" in refused.words)
    before = world.revision("flights")
    plan = require(world.manager.submit(form, {"expression": expression}), 200)
    step.true("the plan says who gains", "delay-authority" in plan.words and "Gained" in plan.words)
    step.equal("and nothing has changed yet", world.revision("flights"), before)
    done = world.manager.submit(plan.form(containing="revision"), {})
    step.true("the change is applied", done.status == 200 and "long%20delays" in done.url)
    step.true("as a new revision", world.revision("flights") > before)
    world.settle("flights")
    agents = set(world.acknowledged("flights").values())
    step.equal("which every agent acknowledges", agents, {world.revision("flights")})
    world.oracle.policy("flights", "long delays")["expression"] = expression
    between = [e for e in samples.day(1, 3) if 60 < int(e.values.get("delay", 0)) <= 120]
    exchange(step, world, "flights that only the new policy permits", between[:20])
    exchange(step, world, "other flights", selection(1, 3)[:60])


def selection(month: int, day: int) -> list[SampleEvent]:
    """Flights of a day: every one that was very late, and others up to the number wanted."""
    all_of_them = samples.day(month, day)
    late = [event for event in all_of_them if int(event.values.get("delay", 0)) > 120]
    step = max(1, len(all_of_them) // FLIGHTS)
    others = itertools.islice(all_of_them, 0, None, step)
    chosen: dict[Any, SampleEvent] = {}
    for event in (*others, *late):
        chosen[event.type, event.values["carrier"], event.values["flight"]] = event
    return list(chosen.values())
