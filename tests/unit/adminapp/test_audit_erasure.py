"""Erasing somebody destroys what identifies them and leaves the log whole."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client

from adminapp.audit import selectors, services, verification
from adminapp.audit.erasure import erase_actor, erase_person
from adminapp.audit.models import Actor, Entry, Person
from adminapp.identity import services as identity
from adminapp.roles import services as roles
from tests.support.control_plane import World


@pytest.fixture(autouse=True)
def _own_witness(tmp_path: Any, settings: Any) -> None:
    settings.AUDIT_WITNESS = tmp_path / "checkpoints.jsonl"


def raw() -> str:
    """All that the database holds of the audit, as text."""
    found = []
    for table in ("audit_entry", "audit_actor", "audit_person"):
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table}")
            found += [repr(row) for row in cursor.fetchall()]
    return "\n".join(found)


def whole() -> bool:
    return verification.verify(key=None).problems == []


def test_what_is_about_persons_is_sealed(world: World) -> None:
    assert "United" not in raw()
    assert "own flights" in raw()  # a policy is nobody
    entry = Entry.objects.get(action="principal.created", object_id=world.united.pk)
    assert entry.object_name == "United"
    assert entry.after["attributes"] == {"carrier": "UA"}
    appointed = Entry.objects.get(object_type="appointment")
    assert appointed.person == entry.person
    assert str(entry.person) == world.united.handle


def test_erasing_a_person(world: World) -> None:
    handle = world.united.handle
    roles.end_appointment(actor=world.manager, appointment=world.appointment)
    before = list(Entry.objects.values_list("leaf", flat=True))
    assert erase_person(pseudonym=handle) is True
    assert erase_person(pseudonym=handle) is False
    assert list(Entry.objects.values_list("leaf", flat=True)) == before
    about = Entry.objects.filter(person__pseudonym=handle)
    assert about.count() == 3
    for entry in about:
        assert entry.erased
        assert (entry.object_name, entry.before, entry.after) == ("[erased]", None, None)
    assert whole()
    other = Entry.objects.get(action="principal.created", object_id=world.airport.pk)
    assert other.object_name == "JFK"


def test_of_an_erased_person_nothing_is_kept_any_more(world: World) -> None:
    erase_person(pseudonym=world.united.handle)
    identity.update_principal(actor=world.manager, principal=world.united, data={"name": "Untied"})
    entry = Entry.objects.order_by("-sequence")[0]
    assert (entry.action, entry.erased, entry.after) == ("principal.updated", True, None)
    assert "Untied" not in raw()
    assert whole()
    never_seen = "p-0000000000000000"
    assert erase_person(pseudonym=never_seen) is True
    services.write(
        actor=None, action="a.b", object_type="a", object_id=1, object_name="x", person=never_seen
    )
    assert Entry.objects.order_by("-sequence")[0].object_name == "[erased]"


def test_erasing_who_made_changes(world: World) -> None:
    assert "mona" in raw()
    count = selectors.search(actor="mona").count()
    assert erase_actor(user_id=world.manager.pk) is True
    assert erase_person(pseudonym=f"u-{world.manager.pk}") is True
    assert erase_actor(user_id=world.manager.pk) is False
    assert "mona" not in raw()
    assert whole()
    erased = Entry.objects.filter(actor__erased_at__isnull=False)
    assert erased.count() == count
    assert {entry.actor_name for entry in erased} == {"[erased]"}
    assert len(set(erased.values_list("actor__pseudonym"))) == 1
    # Who comes back under the name is somebody else.
    services.write(actor=world.manager, action="a.b", object_type="a", object_id=1)
    assert selectors.search(actor="mona").count() == 1
    assert Actor.objects.filter(user_id=world.manager.pk).count() == 2


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("audit_person", "erased_at = NULL, salt = NULL"),
        ("audit_actor", "salt = NULL"),
        ("audit_entry", "open_name = 'clear beside sealed' WHERE person_id IS NOT NULL"),
        ("audit_entry", "sealed = NULL WHERE person_id IS NOT NULL"),
        ("audit_entry", "source = 'nowhere'"),
        ("audit_entry", "sequence = 0 WHERE sequence = 1"),
    ],
)
def test_the_database_holds_to_it(world: World, table: str, change: str) -> None:
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET {change}")


def test_a_thousand_persons_cost_few_queries(db: None, django_assert_max_num_queries: Any) -> None:
    new = [
        services.NewEntry(
            action="principal.created",
            object_type="principal",
            object_id=n,
            object_name=f"name {n}",
            person=f"p-{n}",
        )
        for n in range(1000)
    ]
    with django_assert_max_num_queries(60):
        services.write_many(actor=None, entries=new)
    assert Person.objects.count() == 1000
    with django_assert_max_num_queries(1):
        names = [entry.object_name for entry in Entry.objects.order_by("sequence")]
    assert names == [f"name {n}" for n in range(1000)]


def test_the_console_shows_log_and_entries(world: World, browsers: dict[str, Client]) -> None:
    entry = Entry.objects.get(action="principal.created", object_id=world.united.pk)
    page = browsers["manager"].get(f"/audit/{entry.sequence}/").content.decode()
    assert "United" in page
    assert entry.leaf in page
    listed = browsers["manager"].get("/audit/", {"text": "unite"}).content.decode()
    assert "United" in listed
    assert "own flights" not in listed
    state = browsers["manager"].get("/audit/chain/?check").content.decode()
    assert selectors.state().root in state
    assert "whole" not in state  # only operators have everything read
    assert "The log is whole." in browsers["operator"].get("/audit/chain/?check").content.decode()
    Entry.objects.filter(sequence=2).update(object_id="x")
    broken = browsers["operator"].get("/audit/chain/?check").content.decode()
    assert "entry 2 was changed" in broken
    erase_person(pseudonym=world.united.handle)
    page = browsers["manager"].get(f"/audit/{entry.sequence}/").content.decode()
    assert "[erased]" in page
    assert "United" not in page
