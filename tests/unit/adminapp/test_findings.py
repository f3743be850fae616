"""Findings: each kind where it is meant to be, and where it is not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from adminapp.catalog import services as catalog
from adminapp.changes import planning
from adminapp.changes.operations import Operation
from adminapp.identity import services as identity
from adminapp.identity.models import Domain
from adminapp.policies import comparing, judging, services, variables
from adminapp.policies.finding import KINDS, Finding
from adminapp.policies.findings import findings
from adminapp.policies.kinds import POLICY
from adminapp.policies.models import Policy
from adminapp.roles import services as roles
from tests.support.control_plane import World

API, JSON = "/api/v1", "application/json"
QUIET = ("no-source", "no-audience")
TAIL = {"attribute": "tail", "when": 'event.origin == "JFK"'}


def create(world: World, name: str, **fields: Any) -> Policy:
    wanted = {
        "action": "subscribe",
        "event_type": "Flight",
        "expression": 'subject.role == "airline"',
        **fields,
    }
    domain = wanted.pop("domain", world.flights)
    return services.create_policy(actor=world.operator, domain=domain, name=name, **wanted)


def update(world: World, **data: Any) -> Policy:
    return services.update_policy(actor=world.manager, policy=world.policy, data=data)


def found(world: World, domain: Domain | None = None, **more: Any) -> list[Finding]:
    listed = findings(domain or world.flights, **more)
    assert all(each.kind in KINDS for each in listed)
    return [each for each in listed if each.kind not in QUIET]


def brief(world: World, **more: Any) -> list[tuple[str, str, str]]:
    return [(each.kind, each.severity, each.policy) for each in found(world, **more)]


@pytest.fixture
def below(world: World) -> Domain:
    return identity.create_domain(
        actor=world.operator, name="jfk", title="JFK", parent=world.flights
    )


def test_the_sample_is_quiet_but_for_its_missing_publisher(world: World) -> None:
    assert findings(world.flights) == [
        Finding("no-source", "notice", "own flights", "nobody may publish what it lets be received")
    ]


def test_a_publisher_and_a_subscriber_find_each_other(world: World) -> None:
    row = create(world, "departures", action="publish", event_type="Departure")
    assert findings(world.flights) == []
    services.update_policy(actor=world.manager, policy=world.policy, data={"enabled": False})
    assert [(each.kind, each.policy) for each in findings(world.flights)] == [
        ("no-audience", "departures")
    ]
    services.delete_policy(actor=world.manager, policy=row)
    assert findings(world.flights) == []


# -- nobody ----------------------------------------------------------------------------------


def test_a_policy_that_nobody_meets(world: World) -> None:
    update(world, expression='subject.carrier == "AA"')
    (finding,) = found(world)
    assert finding == Finding(
        "grants-nobody",
        "warning",
        "own flights",
        "no active principal of `flights` meets it now: subject.carrier is AA",
    )
    update(world, valid_from=timezone.now() + timedelta(days=1))
    assert found(world) == []  # it is not meant to, now
    update(world, valid_from=None, enabled=False)
    assert found(world) == []
    update(world, enabled=True, valid_until=timezone.now() - timedelta(days=1))
    assert found(world) == []


def test_a_policy_that_the_environment_keeps_shut(world: World) -> None:
    alarm = variables.declare_variable(
        actor=world.manager, domain=world.flights, name="alarm", type={"type": "bool"}
    )
    update(world, expression='subject.carrier == "UA" && env.alarm')
    (finding,) = found(world)
    assert (finding.kind, finding.severity) == ("grants-nobody", "notice")
    assert "environment" in finding.message
    variables.set_variable(actor=world.manager, variable=alarm, value=True)
    assert found(world) == []


def test_a_role_that_nothing_can_activate(world: World) -> None:
    roles.create_role(actor=world.manager, domain=world.flights, name="ghost")
    chained = [{"prerequisites": ["ghost"], "appointments": []}]
    roles.create_role(actor=world.manager, domain=world.flights, name="shade", rules=chained)
    for name in ("ghost", "shade"):
        update(world, expression=f'subject.role == "{name}"')
        (finding,) = found(world)
        assert (finding.kind, finding.severity) == ("unreachable", "warning")
        assert f"role `{name}`, which nothing can activate" in finding.message
    update(world, expression='subject.role == "airline" || subject.role == "ghost"')
    assert brief(world) == [("unreachable", "warning", "own flights")]
    update(world, expression='subject.role == "airline" && !(subject.role == "ghost")')
    assert found(world) == []


# -- what can never be met -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("false", "its condition can never be met"),
        (
            'subject.carrier == "UA" || event.origin == "A" && event.origin == "B"',
            '`event.origin == "A" && event.origin == "B"` can never be met',
        ),
        (
            'subject.carrier == "UA" || env.hour > 20 && env.hour < 3',
            "`env.hour > 20 && env.hour < 3` can never be met",
        ),
    ],
)
def test_what_can_never_be_met(expression: str, message: str, world: World) -> None:
    update(world, expression=expression)
    (finding,) = found(world)
    assert (finding.kind, finding.severity, finding.message) == ("unreachable", "warning", message)


@pytest.mark.parametrize(
    ("expression", "adds"),
    [
        (
            'subject.carrier == "UA" || subject.carrier in ["UA", "AA"]',
            'subject.carrier == "UA"',
        ),
        (
            'has(subject.carrier) || subject.carrier == "UA" && event.origin == "A"',
            'subject.carrier == "UA" && event.origin == "A"',
        ),
        ('subject.carrier == "UA" || subject.carrier == "AA"', None),
        ("event.carrier == subject.carrier || has(subject.carrier)", None),
    ],
)
def test_alternatives_that_add_nothing(expression: str, adds: str | None, world: World) -> None:
    update(world, expression=expression)
    listed = [each for each in found(world) if each.severity == "notice"]
    if adds is None and "event.carrier" not in expression:
        assert listed == []
        return
    wanted = adds or "event.carrier == subject.carrier"
    assert [each.message for each in listed] == [
        f"`{wanted}` adds nothing: whoever meets it meets another alternative"
    ]


def test_of_two_alternatives_that_say_the_same_one_stays(world: World) -> None:
    update(world, expression='subject.carrier == "UA" || subject.carrier in ["UA"]')
    assert len(found(world)) == 1


# -- rules by value --------------------------------------------------------------------------


def test_a_rule_that_another_policy_makes_void(world: World) -> None:
    update(world, rules=[TAIL])
    assert found(world) == []
    create(world, "all tails", expression='subject.carrier == "UA"', attributes=["tail"])
    (finding,) = found(world)
    assert (finding.kind, finding.severity, finding.policy, finding.related) == (
        "conflict",
        "warning",
        "own flights",
        ("all tails",),
    )
    assert 'may be read only where `event.origin == "JFK"`' in finding.message
    assert found(world, only=["all tails"]) == [finding]
    assert found(world, only=["other"]) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"expression": 'subject.carrier == "UA" && event.origin == "JFK"'},  # as narrow
        {"attributes": ["origin"]},
        {"expression": 'subject.carrier == "UA" && !(subject.role == "airline")'},  # not both
        {"valid_until": timezone.now() + timedelta(days=1)},
        {"action": "publish"},
        {"rules": [TAIL]},
        {"enabled": False},
    ],
)
def test_what_is_no_conflict(fields: dict[str, Any], world: World) -> None:
    update(world, rules=[TAIL], valid_from=timezone.now() + timedelta(days=2))
    later = {"valid_from": timezone.now() + timedelta(days=2)}
    create(
        world,
        "other",
        **{
            "expression": 'subject.carrier == "UA"',
            **({} if "valid_until" in fields else later),
            **fields,
        },
    )
    assert [each for each in found(world) if each.kind == "conflict"] == []


def test_an_event_that_one_keeps_back_and_another_lets_through(world: World) -> None:
    update(world, rules=[{"attribute": None, "when": 'event.origin == "JFK"'}])
    create(world, "carriers", expression='subject.carrier == "UA"', attributes=["carrier"])
    (finding,) = found(world)
    assert (finding.kind, finding.policy, finding.related) == (
        "conflict",
        "own flights",
        ("carriers",),
    )
    assert finding.message.startswith("it passes an event on only where")


def test_rules_of_one_policy_that_contradict_one_another(world: World) -> None:
    update(world, rules=[TAIL, {"attribute": "tail", "when": 'event.origin == "LGA"'}])
    (finding,) = found(world)
    assert (finding.kind, finding.message) == (
        "conflict",
        "its rules contradict one another: `tail` can never be read",
    )
    update(world, rules=[TAIL, {"attribute": "tail", "when": 'event.carrier == "UA"'}])
    assert found(world) == []
    update(
        world, rules=[{"attribute": "tail", "when": 'event.origin == "A" && !has(event.origin)'}]
    )
    assert {each.kind for each in found(world)} == {"unreachable", "conflict"}


def test_agents_do_all_that_a_rule_asks_for(world: World) -> None:
    update(world, rules=[{**TAIL, "otherwise": "suppress"}])
    assert found(world) == []


# -- doubles ---------------------------------------------------------------------------------


def test_a_policy_that_another_one_contains(world: World) -> None:
    narrow = create(
        world,
        "narrow",
        event_type="Departure",
        expression='subject.role == "airline" && event.carrier == subject.carrier && '
        'event.origin == "JFK"',
        attributes=["carrier"],
    )
    (finding,) = found(world)
    assert (finding.kind, finding.severity, finding.policy, finding.related) == (
        "redundant",
        "notice",
        "narrow",
        ("own flights",),
    )
    for data in (
        {"expression": 'subject.role == "airline" && event.origin == "JFK"'},
        {"action": "publish"},
    ):
        services.update_policy(
            actor=world.manager,
            policy=narrow,
            data={"expression": narrow.expression, "action": "subscribe", **data},
        )
        assert [each for each in found(world) if each.kind == "redundant"] == []
    services.update_policy(actor=world.manager, policy=narrow, data={"action": "subscribe"})
    update(world, valid_until=timezone.now() + timedelta(days=1))
    assert [each for each in found(world) if each.kind == "redundant"] == []


def test_of_two_that_say_the_same_the_later_is_the_double(world: World) -> None:
    create(world, "same", expression=world.policy.expression)
    (finding,) = found(world)
    assert (finding.policy, finding.related) == ("same", ("own flights",))


@pytest.mark.parametrize("limit", ["PAIRS", "SEARCHES"])
def test_what_was_not_compared_is_said(
    limit: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, limit, 0)
    create(world, "same", expression=world.policy.expression)
    (finding,) = found(world)
    assert (finding.kind, finding.severity) == ("incomplete", "unknown")


# -- the domain above ------------------------------------------------------------------------


def test_a_policy_that_is_wider_than_the_domain_above(world: World, below: Domain) -> None:
    update(world, attributes=["carrier", "origin"])
    row = create(world, "local", domain=below, expression=world.policy.expression)

    def wider() -> list[Finding]:
        return [each for each in found(world, below) if each.kind == "wider"]

    (finding,) = wider()
    assert (finding.severity, finding.policy) == ("warning", "local")
    assert finding.message.startswith("no policy of `flights` lets `tail` of `Flight` be had by")
    for data, expected in (
        ({"attributes": ["carrier"]}, []),
        ({"expression": world.policy.expression + ' && event.origin == "JFK"'}, []),
        ({"expression": 'subject.role == "airline"'}, ["warning"]),
        ({"expression": 'subject.carrier == "UA" && event.carrier == "UA"'}, ["warning"]),
        (
            {
                "expression": 'subject.role == "airline" && subject.carrier == "UA"'
                ' && event.carrier == "UA"'
            },
            [],
        ),
        (
            {
                "expression": 'subject.role == "airline" && subject.carrier != "UA"'
                ' && event.carrier == "UA"'
            },
            ["unknown"],
        ),
        ({"action": "publish", "expression": world.policy.expression}, ["warning"]),
    ):
        services.update_policy(actor=world.operator, policy=row, data=data)
        assert [each.severity for each in wider()] == expected
    assert [each for each in found(world) if each.kind == "wider"] == []


def test_what_is_the_domains_own_is_not_wider(world: World, below: Domain) -> None:
    catalog.create_event_type(
        actor=world.operator,
        domain=below,
        name="Gate",
        attributes=[{"name": "number", "type": {"type": "int"}}],
    )
    create(world, "gates", domain=below, event_type="Gate", expression="true")
    catalog.create_event_type(
        actor=world.operator, domain=below, name="Taxi", parent=world.departure
    )
    create(world, "taxis", domain=below, event_type="Taxi", expression="true")
    assert [each for each in found(world, below) if each.kind == "wider"] == []


def test_a_search_that_takes_too_long_is_said(
    world: World, below: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(
        world, "local", domain=below, expression=world.policy.expression + ' && event.origin != ""'
    )
    monkeypatch.setattr(judging.implied, "__kwdefaults__", {"work": 10})
    kinds = {(each.kind, each.severity) for each in found(world, below)}
    assert ("wider", "unknown") in kinds


def test_an_inherited_policy_that_no_longer_fits(world: World, below: Domain) -> None:
    catalog.create_subject_attribute(
        actor=world.operator, domain=below, name="carrier", type={"type": "int"}
    )
    (finding,) = found(world, below)
    assert (finding.kind, finding.policy) == ("unfit", "own flights")
    assert finding.message.startswith("it grants nothing: ")
    assert found(world) == []


# -- REST ------------------------------------------------------------------------------------


def test_saving_a_policy_answers_with_its_findings(
    world: World, browsers: dict[str, Client]
) -> None:
    manager = browsers["manager"]
    body = {
        "domain": "flights",
        "name": "twice",
        "action": "subscribe",
        "event_type": "Flight",
        "expression": world.policy.expression,
    }
    made = manager.post(f"{API}/policies", body, JSON)
    assert [(each["kind"], each["related"]) for each in made.json()["findings"]] == [
        ("no-source", []),
        ("redundant", ["own flights"]),
    ]
    url = made["Location"]
    changed = manager.patch(url, {"enabled": False}, JSON, headers={"If-Match": '"1"'})
    assert changed.json()["findings"] == []
    restored = manager.post(f"{url}/restore", {"number": 1}, JSON)
    assert {each["kind"] for each in restored.json()["findings"]} == {"redundant", "no-source"}
    assert "findings" not in manager.get(url).json()


def test_a_plan_says_what_would_be_worth_a_second_look(
    world: World, browsers: dict[str, Client]
) -> None:
    body = {
        "domain": "flights",
        "policy": world.policy.pk,
        "data": {"expression": 'subject.carrier == "AA"'},
    }
    plan = browsers["manager"].post(f"{API}/policies/plan", body, JSON).json()
    assert [each["kind"] for each in plan["findings"]] == ["grants-nobody"]
    deleting = browsers["manager"].post(f"{API}/policies/plan", {**body, "data": None}, JSON)
    assert deleting.json()["findings"] == []


def test_a_plan_of_several_changes_has_findings_too(world: World) -> None:
    document = {
        "name": "own flights",
        "action": "subscribe",
        "event_type": "Flight",
        "expression": 'subject.carrier == "AA"',
    }
    whole = POLICY.whole(world.flights, document)
    put = Operation("put", "flights", "policy", "own flights", whole)
    plan = planning.rehearse(actor=world.manager, operations=[put])
    assert [(each.domain, each.finding.kind) for each in plan.findings] == [
        ("flights", "grants-nobody")
    ]
    assert plan.to_json()["findings"][0]["policy"] == "own flights"
    retired = Operation("delete", "flights", "policy", "own flights", None)
    assert planning.rehearse(actor=world.manager, operations=[retired]).findings == ()
    titled = Operation("put", "flights", "attribute-key", "new", {"name": "new", "title": ""})
    assert planning.rehearse(actor=world.manager, operations=[titled]).findings == ()


def test_findings_of_a_domain(world: World, browsers: dict[str, Client]) -> None:
    url = f"{API}/policies/findings"
    codes = {
        name: browser.get(url, {"domain": "flights"}).status_code
        for name, browser in browsers.items()
    }
    assert codes == {
        "anonymous": 401,
        "operator": 200,
        "manager": 200,
        "auditor": 200,
        "stranger": 404,
    }
    (finding,) = browsers["auditor"].get(url, {"domain": "flights"}).json()
    assert finding == {
        "kind": "no-source",
        "severity": "notice",
        "policy": "own flights",
        "message": "nobody may publish what it lets be received",
        "related": [],
    }
    one = browsers["auditor"].get(url, {"domain": "flights", "policy": "none such"})
    assert one.json() == []
    assert browsers["auditor"].get(url).status_code == 404
