"""Every way to tamper with the audit is seen, and where."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from adminapp.audit import mapping, selectors, services
from adminapp.audit.models import ChainHead, Entry


@pytest.fixture
def chain(db: None) -> list[Entry]:
    return [
        services.write(
            actor=None,
            action="thing.changed",
            object_type="thing",
            object_id=number,
            object_name=f"thing {number}",
            domain_name="flights",
            before={"n": number, "f": 1e20, "t": "é"},
            after=None,
        )
        for number in range(1, 7)
    ]


def found() -> list[tuple[int, str]]:
    return [(problem.sequence, problem.kind) for problem in selectors.verify_chain()]


def test_an_untouched_chain_is_whole(chain: list[Entry]) -> None:
    assert found() == []
    out = StringIO()
    call_command("verify_audit", stdout=out)
    assert out.getvalue() == "the chain of 6 entries is whole\n"


def test_an_empty_chain_is_whole(db: None) -> None:
    assert found() == []


@pytest.mark.parametrize(
    "change",
    [
        {"actor_name": "somebody"},
        {"action": "thing.other"},
        {"before": {"n": 99}},
        {"after": {}},
        {"object_name": ""},
        {"domain_name": "heating"},
        {"object_id": "9"},
    ],
)
def test_changed(chain: list[Entry], change: dict[str, object]) -> None:
    Entry.objects.filter(sequence=3).update(**change)
    assert found() == [(3, "changed")]


def test_changed_with_a_new_hash(chain: list[Entry]) -> None:
    entry = Entry.objects.get(sequence=3)
    entry.actor_name = "somebody"
    entry.hash = mapping.digest(entry)
    entry.save()
    assert found() == [(4, "reordered")]  # the next one no longer follows


@pytest.mark.parametrize("sequence", [1, 3, 6])
def test_removed(chain: list[Entry], sequence: int) -> None:
    Entry.objects.filter(sequence=sequence).delete()
    assert found() == [(sequence, "removed")]


def test_several_removed_at_the_end(chain: list[Entry]) -> None:
    Entry.objects.filter(sequence__gt=3).delete()
    assert found() == [(4, "removed"), (5, "removed"), (6, "removed")]


def test_everything_removed(chain: list[Entry]) -> None:
    Entry.objects.all().delete()
    assert [sequence for sequence, _kind in found()] == [1, 2, 3, 4, 5, 6]


def test_reordered(chain: list[Entry]) -> None:
    for old, new in ((3, 100), (4, 3), (100, 4)):
        Entry.objects.filter(sequence=old).update(sequence=new)
    assert found() == [(3, "reordered"), (4, "reordered")]


def test_added_past_the_end(chain: list[Entry]) -> None:
    entry = Entry.objects.get(sequence=6)
    entry.pk, entry.sequence, entry.previous_hash = None, 7, entry.hash
    entry.hash = mapping.digest(entry)
    entry.save()
    assert found() == [(7, "added")]


def test_the_end_of_the_chain_is_forged_or_gone(chain: list[Entry]) -> None:
    ChainHead.objects.update(hash="0" * 64)
    assert found() == [(6, "changed")]
    ChainHead.objects.all().delete()
    assert found() == [(6, "removed")]


def test_the_command_names_the_places_and_fails(chain: list[Entry]) -> None:
    Entry.objects.filter(sequence=2).update(actor_name="x")
    Entry.objects.filter(sequence=4).delete()
    out = StringIO()
    with pytest.raises(CommandError, match="broken in 2 places") as failure:
        call_command("verify_audit", stdout=out)
    assert failure.value.returncode == 1
    assert out.getvalue().splitlines() == [
        "2: changed: entry 2 was changed",
        "4: removed: entry 4 is gone",
    ]


def test_what_is_rolled_back_leaves_no_gap(chain: list[Entry]) -> None:
    with transaction.atomic():
        services.write(actor=None, action="a.b", object_type="a", object_id=1)
        transaction.set_rollback(True)
    services.write(actor=None, action="a.b", object_type="a", object_id=1)
    assert Entry.objects.order_by("-sequence").values_list("sequence", flat=True)[0] == 7
    assert found() == []


def test_searching(chain: list[Entry]) -> None:
    services.write(actor=None, action="other.made", object_type="other", object_id=1)
    assert [e.sequence for e in selectors.search(action="other.made")] == [7]
    assert [e.sequence for e in selectors.search(text="THING 2")] == [2]
    assert [e.sequence for e in selectors.search(domain_names={"flights"}, object_id="5")] == [5]
    assert not selectors.search(domain_names=set())


def test_many_entries_at_once_stand_in_the_chain_as_if_written_one_by_one(
    chain: list[Entry], django_assert_max_num_queries: Any
) -> None:
    new = (
        services.NewEntry(
            action="thing.created", object_type="thing", object_id=n, after={"number": n}
        )
        for n in range(5000)
    )
    with django_assert_max_num_queries(100):
        numbers = services.write_many(actor=None, entries=new)
    assert numbers == range(7, 5007)
    assert found() == []
    assert Entry.objects.get(sequence=5006).after == {"number": 4999}
    assert services.write_many(actor=None, entries=[]) == range(0)


def test_many_entries_are_written_all_or_none(chain: list[Entry]) -> None:
    def broken() -> Iterator[services.NewEntry]:
        for n in range(3000):
            yield services.NewEntry(action="thing.created", object_type="thing", object_id=n)
        raise OSError("the file ends here")

    with pytest.raises(OSError, match="ends here"):
        services.write_many(actor=None, entries=broken())
    assert Entry.objects.count() == 6
    assert found() == []
