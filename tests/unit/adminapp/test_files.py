"""Organisation files: strict reading, all or nothing, idempotent, byte-stable."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from adminapp.audit.models import Entry
from adminapp.catalog.models import EventType
from adminapp.changes import files
from adminapp.changes.loading import load
from adminapp.changes.yamlfiles import MAX_BYTES, dump, parse
from adminapp.core.errors import Conflict, Forbidden, Invalid
from adminapp.identity import services as identity
from adminapp.identity.models import Domain, Principal
from adminapp.policies import reach
from adminapp.policies.models import Policy
from tests.support.control_plane import World, key

SAMPLES = Path(__file__).parents[3] / "adminapp" / "samples"
FILES = [SAMPLES / "heating.yaml", SAMPLES / "flights.yaml"]
HEAD = "object: domain\nname: small\ntitle: Small\n"
AGENTS = {"alpha": "a", "beta": "a", "gamma": "b"}


def _role(text: str) -> str:
    return f"---\nobject: role\ndomain: small\n{text}\n"


def make_agents() -> None:
    overlays = {
        name: identity.create_overlay(actor=None, name=name, title=name) for name in ("a", "b")
    }
    for number, (name, overlay) in enumerate(AGENTS.items()):
        identity.register_agent(
            actor=None,
            name=name,
            overlay=overlays[overlay],
            sealing_key=key(number + 1),
            verify_key=key(number + 101),
        )


@pytest.fixture
def agents(db: None) -> None:
    make_agents()


def test_the_samples_load_and_load_again_without_a_change(agents: None) -> None:
    first = load(FILES)
    assert first.different == first.updated == []
    assert {"policy heating/AP_A", "principal flights/UA"} <= set(first.created)
    entries, revisions = Entry.objects.count(), list(Domain.objects.values_list("revision"))
    second = load(FILES, update=True)
    assert (second.created, second.updated, second.different) == ([], [], [])
    assert second.unchanged == len(first.created)
    assert Entry.objects.count() == entries
    assert list(Domain.objects.values_list("revision")) == revisions


def test_a_file_is_one_revision_of_its_domain(agents: None) -> None:
    load(FILES)
    assert set(Domain.objects.values_list("revision", flat=True)) == {1}


def test_what_a_manager_changed_stays_unless_an_update_is_asked_for(agents: None) -> None:
    load(FILES)
    Policy.objects.filter(name="AP_B").update(title="changed by hand")
    Policy.objects.filter(name="AP_A").delete()
    report = load(FILES)
    assert report.different == ["policy heating/AP_A", "policy heating/AP_B"]
    assert Policy.objects.get(name="AP_B").title == "changed by hand"
    assert not Policy.objects.filter(name="AP_A").exists()
    report = load(FILES, update=True)
    assert (report.created, report.updated) == (["policy heating/AP_A"], ["policy heating/AP_B"])
    assert Policy.objects.get(name="AP_B").title != "changed by hand"


def test_nobody_revoked_comes_back(agents: None) -> None:
    load(FILES)
    Principal.objects.filter(name="UA").update(state="revoked")
    report = load(FILES, update=True)
    assert report.updated == report.created == []
    assert Principal.objects.get(name="UA").state == "revoked"


def test_a_mistake_in_the_second_file_leaves_nothing_of_the_first(
    agents: None, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.yaml"
    text = FILES[1].read_text().replace("subject.carrier == event.carrier", "subject.carier == 1")
    broken.write_text(text)
    with pytest.raises(Invalid) as caught:
        load([FILES[0], broken])
    (problem,) = caught.value.problems
    line = text[: text.index("name: own flights")].count("\n") - 1
    assert problem.pointer == f"broken.yaml:{line}: /expression"
    assert problem.suggestion == "subject.carrier"
    assert not Domain.objects.exists()


def test_an_unknown_agent_is_pointed_at(db: None) -> None:
    with pytest.raises(CommandError, match=r"/agents/a: there is no agent `alpha`"):
        call_command("load_organisation", str(FILES[0]))
    assert not Domain.objects.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x 1\nb: *x\n", "anchors and aliases"),
        ("a: !!python/object/apply:os.system [true]\n", "tags are not used"),
        (HEAD + "title: Twice\n", "a key stands there twice"),
        ("{" * 60, "nested too deep"),
        ("[1]", "a document is an object"),
        ("name: nobody\n", "what sort of object"),
        ("object: surprise\n", "no known kind"),
        ("object: role\nname: r\n", "in which domain"),
        (HEAD + "domain: small\n", "stands in no domain"),
        (HEAD + _role("name: r") + _role("name: r"), "role `r` stands there twice"),
        ("a: [\n", "line"),
    ],
)
def test_files_are_read_strictly(text: str, message: str) -> None:
    with pytest.raises(Invalid, match=message) as caught:
        parse("f.yaml", text.encode())
    assert all(each.pointer.startswith("f.yaml:") for each in caught.value.problems)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_role("name: r\nrule: []"), "`rule` is no known field"),
        (_role("title: no name"), "`name` is missing"),
        (_role("name: r\nrules: {name: r}"), "list"),
        (_role("name: r\nrules: [1]"), "a rule is an object"),
        ("---\nobject: event-type\ndomain: small\nname: T\nattributes: [{name: a}]\n", "type"),
        (("---\nobject: policy\ndomain: small\nname: p\naction: publish\nevent_type: T\n"
         "expression: 'true'\n"), "there is no event type|`T` is no known event type"),
        ("---\nobject: trust-group\ndomain: small\nname: g\nmembers: [nobody]\n", "`nobody`"),
        ("---\nobject: domain\nname: other\ntitle: Other\nparent: none\n", "no domain `none`"),
    ],
)  # fmt: skip
def test_what_services_refuse_is_pointed_at(db: None, text: str, message: str) -> None:
    with pytest.raises(Invalid, match=message) as caught:
        files.apply(actor=None, files=[("f.yaml", (HEAD + text).encode())])
    assert all(each.pointer.startswith("f.yaml:5: ") for each in caught.value.problems)
    assert not Domain.objects.exists()


def test_every_mistake_is_told_at_once(db: None) -> None:
    text = HEAD + _role("name: r\nrule: []") + _role("name: '7'") + _role("name: s\nrules: 1")
    with pytest.raises(Invalid) as caught:
        files.plan(actor=None, files=[("f.yaml", text.encode())])
    assert [each.pointer for each in caught.value.problems] == [
        "f.yaml:5: /rule",
        "f.yaml:14: /rules",
    ]


def test_circles_are_refused(agents: None) -> None:
    circle = "".join(
        f"---\nobject: event-type\ndomain: small\nname: {name}\nparent: {parent}\n"
        for name, parent in (("A", "B"), ("B", "A"))
    )
    with pytest.raises(Invalid, match="there is no event type"):
        files.apply(actor=None, files=[("f.yaml", (HEAD + circle).encode())])
    assert not Domain.objects.exists()


def test_large_and_binary_files_are_refused() -> None:
    with pytest.raises(Invalid, match="bytes"):
        parse("f", b"#" * (MAX_BYTES + 1))
    with pytest.raises(Invalid, match="UTF-8"):
        parse("f", b"\xff\xfe")


def test_words_that_yaml_turns_into_other_things_stay_words() -> None:
    (principal,) = parse(
        "f",
        b"{object: principal, domain: no, name: NO, kind: on,"
        b" attributes: {a: no, b: 1.5, c: -3, d: 12:30}}",
    )
    assert (principal.domain, principal.key, principal.document["kind"]) == ("no", "NO", "on")
    assert principal.document["attributes"] == {"a": "no", "b": 1.5, "c": -3, "d": "12:30"}


@pytest.mark.parametrize(
    "value", ["NO", "true", "12", "1e5", "~", "", "- a", "a: b", "ü\n#x", "*a"]
)
def test_what_is_written_is_read_back(value: str) -> None:
    document = {
        "name": "p", "kind": "person", "attributes": {"a": value}, "agents": {},
        "sealing_key": "", "verify_key": "", "state": "active",
    }  # fmt: skip
    (read,) = parse("f", dump([("d", "principal", document)]).encode())
    assert read.document == {"name": "p", "kind": "person", "attributes": {"a": value}}


@pytest.mark.parametrize("name", ["heating", "stocks", "city", "beach", "flights"])
def test_every_sample_loads_and_is_written_as_it_was_read(agents: None, name: str) -> None:
    load([SAMPLES / f"{name}.yaml"])
    text = files.export(Domain.objects.all())
    plan = files.plan(actor=None, files=[("again.yaml", text.encode())], partial=False)
    assert (plan.changes, plan.problems) == ((), ())
    held = files.read_all([(name, (SAMPLES / f"{name}.yaml").read_bytes())])
    exported = files.read_all([("export", text.encode())])
    assert sorted((e.domain, e.kind, e.key) for e in held) == sorted(
        (e.domain, e.kind, e.key) for e in exported
    )


def test_the_city_s_officers_hear_of_their_own_area(agents: None) -> None:
    load([SAMPLES / "city.yaml"])
    police = reach.take(Domain.objects.get(name="police"))
    for officer, area in (("officer-1", "Centre"), ("officer-2", "West Cambridge")):
        for place in ("Centre", "West Cambridge"):
            event = {"location": place, "zone": "centre", "severity": 3, "polCode": 2}
            hears = police.permits(officer, "subscribe", "BurglaryEvent", "location", event)
            assert hears == (place == area)
    assert not police.permits("duty-desk", "subscribe", "BurglaryEvent", "location")
    fire = reach.take(Domain.objects.get(name="fire"))
    assert fire.permits("engine-4", "subscribe", "CityEvent", "zone")  # the city's own policy


def test_lifeguards_see_bathers_while_they_are_on_duty(agents: None) -> None:
    load([SAMPLES / "beach.yaml"])
    beach = reach.take(Domain.objects.get(name="beach"))
    event = {"location": "north", "age": 30, "gender": "other", "occupation": "cook", "name": "B"}
    assert beach.permits("tower-north", "subscribe", "Position", "name", event)
    assert not beach.permits("tower-south", "subscribe", "Position", "name")  # off duty
    assert not beach.permits(
        "tower-north", "subscribe", "Position", "name", {**event, "location": "south"}
    )


# -- export, plan, apply ---------------------------------------------------------------------


def test_an_export_planned_into_the_same_instance_changes_nothing(world: World) -> None:
    text = files.export(Domain.objects.all(), platform=True)
    plan = files.plan(actor=world.operator, files=[("all.yaml", text.encode())], partial=False)
    assert (plan.changes, plan.problems) == ((), ())


def test_an_export_applied_to_an_empty_instance_exports_the_same_bytes(agents: None) -> None:
    load(FILES)
    text = files.export(Domain.objects.all())
    Policy.objects.all().delete()
    EventType.objects.update(parent=None)
    Domain.objects.all().delete()
    files.apply(actor=None, files=[("all.yaml", text.encode())])
    assert files.export(Domain.objects.all()) == text


def test_a_plan_writes_nothing_and_says_what_would_happen(world: World) -> None:
    entries, revision = Entry.objects.count(), world.flights.revision
    text = (
        "object: policy\ndomain: flights\nname: more\naction: subscribe\nevent_type: Flight\n"
        'expression: subject.role == "airline"\nattributes: [carrier]\n'
    )
    plan = files.plan(actor=world.manager, files=[("f.yaml", text.encode())])
    assert plan.problems == ()
    (change,) = plan.changes
    assert (change.op, change.kind, change.key) == ("create", "policy", "more")
    assert plan.revisions == {"flights": revision}
    assert Entry.objects.count() == entries
    assert not Policy.objects.filter(name="more").exists()


def test_a_file_that_lacks_an_object_deletes_it_only_when_it_is_whole(world: World) -> None:
    text = files.export([world.flights])
    without = text.replace(_document(text, "object: policy"), "")
    assert without != text
    data = [("f.yaml", without.encode())]
    assert files.plan(actor=world.manager, files=data).changes == ()
    (change,) = files.plan(actor=world.manager, files=data, partial=False).changes
    assert (change.op, change.kind) == ("delete", "policy")
    files.apply(actor=world.manager, files=data, partial=False)
    assert not Policy.objects.filter(pk=world.policy.pk).exists()


def _document(text: str, beginning: str) -> str:
    (found, *_) = [each for each in text.split("---\n") if each.startswith(beginning)]
    return f"---\n{found}"


def test_a_stale_plan_is_refused(world: World) -> None:
    data = [("f.yaml", b"object: role\ndomain: flights\nname: night\n")]
    before = files.plan(actor=world.manager, files=data).revisions
    files.apply(actor=world.manager, files=[("g", b"object: role\ndomain: flights\nname: day\n")])
    with pytest.raises(Conflict, match="changed since the plan"):
        files.apply(actor=world.manager, files=data, expected=before)


@pytest.mark.parametrize("who", ["auditor", "stranger"])
def test_only_managers_apply(world: World, who: str) -> None:
    data = [("f.yaml", b"object: role\ndomain: flights\nname: night\n")]
    with pytest.raises(Forbidden):
        files.apply(actor=world.user(who), files=data)
    with pytest.raises(Forbidden):
        files.plan(actor=world.user(who), files=data)
