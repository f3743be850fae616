"""Organisation files: strict reading, all or nothing, idempotent."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from adminapp.audit.models import Entry
from adminapp.core.errors import Invalid
from adminapp.distribution.organisation_files import parse
from adminapp.distribution.organisations import load_organisations
from adminapp.identity.models import Domain, Principal
from adminapp.policies.models import Policy
from tests.support.audiences import Plane
from tests.unit.distribution.conftest import SAMPLES, register_agents

FILES = [SAMPLES / "heating.yaml", SAMPLES / "flights.yaml"]
HEAD = "format: portcullis/organisation/v1\ndomain: {name: small, title: Small}\n"


@pytest.fixture
def agents(plane: Plane) -> None:
    register_agents(plane)


def test_the_samples_load_and_load_again_without_a_change(agents: None) -> None:
    first = load_organisations(FILES)
    assert first.different == first.updated == []
    assert {"policy heating/AP_A", "principal flights/UA"} <= set(first.created)
    entries, revisions = Entry.objects.count(), list(Domain.objects.values_list("revision"))
    second = load_organisations(FILES, update=True)
    assert (second.created, second.updated, second.different) == ([], [], [])
    assert second.unchanged == len(first.created)
    assert Entry.objects.count() == entries
    assert list(Domain.objects.values_list("revision")) == revisions


def test_what_a_manager_changed_stays_unless_an_update_is_asked_for(agents: None) -> None:
    load_organisations(FILES)
    Policy.objects.filter(name="AP_B").update(title="changed by hand")
    report = load_organisations(FILES)
    assert report.different == ["policy heating/AP_B"]
    assert Policy.objects.get(name="AP_B").title == "changed by hand"
    report = load_organisations(FILES, update=True)
    assert report.updated == ["policy heating/AP_B"]
    assert Policy.objects.get(name="AP_B").title != "changed by hand"


def test_nobody_revoked_comes_back(agents: None) -> None:
    load_organisations(FILES)
    Principal.objects.filter(name="UA").update(state="revoked")
    report = load_organisations(FILES, update=True)
    assert report.updated == []
    assert Principal.objects.get(name="UA").state == "revoked"


def test_a_mistake_in_the_second_file_leaves_nothing_of_the_first(
    agents: None, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.yaml"
    text = FILES[1].read_text().replace("subject.carrier == event.carrier", "subject.carier == 1")
    broken.write_text(text)
    with pytest.raises(Invalid) as caught:
        load_organisations([FILES[0], broken])
    (problem,) = caught.value.problems
    assert problem.pointer == "broken.yaml: /policies/2/expression"
    assert problem.suggestion == "subject.carrier"
    assert not Domain.objects.exists()


def test_an_unknown_agent_is_pointed_at(plane: Plane, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"/principals/0/homes: there is no agent `alpha`"):
        call_command("load_organisation", str(FILES[0]))
    assert not Domain.objects.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x 1\nb: *x\n", "anchors and aliases"),
        ("a: !!python/object/apply:os.system [true]\n", "tags are not used"),
        (HEAD + "domain: {name: twice, title: Twice}\n", "stands there twice"),
        ("{" * 60, "nested too deep"),
        ("[1]", "must be|holds an object"),
        (HEAD.replace("v1", "v9"), "must be `portcullis/organisation/v1`"),
        (HEAD + "surprise: []\n", "no section"),
        (HEAD + "roles: [{name: r, rule: []}]\n", "`rule` is not known here"),
        (HEAD + "roles: [{title: no name}]\n", "`name` is missing"),
        (HEAD + "roles: {name: r}\n", "must be a list"),
        (HEAD + "roles: [{name: 7}]\n", "must be a text"),
        (HEAD + "policies: [{name: p, action: a, event_type: t, expression: e, enabled: yes}]\n",
         "must be true or false"),
        (HEAD + "roles: [{name: r}, {name: r}]\n", "`r` stands there twice"),
        ("a: [\n", "line"),
    ],
)  # fmt: skip
def test_files_are_read_strictly(text: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        parse(text.encode())


def test_large_and_binary_files_are_refused() -> None:
    with pytest.raises(Invalid, match="bytes"):
        parse(b"#" * (2**20 + 1))
    with pytest.raises(Invalid, match="UTF-8"):
        parse(b"\xff\xfe")


def test_words_that_yaml_turns_into_other_things_stay_words() -> None:
    spec = parse(
        (
            HEAD
            + "principals: [{name: NO, kind: on, attributes: {a: no, b: 1.5, c: -3, d: 12:30}}]"
        ).encode()
    )
    (principal,) = spec.principals
    assert (principal.name, principal.kind) == ("NO", "on")
    assert principal.attributes == {"a": "no", "b": 1.5, "c": -3, "d": "12:30"}
