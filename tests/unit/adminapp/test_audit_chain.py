"""Every way to tamper with the audit is seen, and where."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from adminapp.audit import checkpoints, keys, mapping, selectors, services, tree, witness
from adminapp.audit.models import Actor, Checkpoint, Entry, Person, TreeHead, TreeNode
from adminapp.audit.promises import LogKey
from adminapp.audit.verification import Report, verify
from adminapp.core import journal
from adminapp.core.authority import AuthorityClient
from policyengine.primitives.checkpoints import verifier_key
from policyengine.primitives.rand import SYSTEM_RANDOM
from tasks.authority.operations import Operations
from tasks.authority.server import AuthorityServer
from tasks.authority.store import create_state, forget_log

ENTRY = "audit_entry"


@pytest.fixture(autouse=True)
def _own_witness(tmp_path: Path, settings: Any) -> None:
    settings.AUDIT_WITNESS = tmp_path / "witness" / "checkpoints.jsonl"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[AuthorityClient]:
    path = tmp_path / "run" / "authority.sock"
    server = AuthorityServer(path, Operations(create_state(tmp_path / "state", SYSTEM_RANDOM)))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    made = AuthorityClient(path)
    yield made
    made.close()
    server.shutdown()
    thread.join()
    server.server_close()


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
            person="p-1" if number == 5 else "",
        )
        for number in range(1, 7)
    ]


def found(client: AuthorityClient | None = None) -> list[tuple[int, str]]:
    report = report_of(client)
    assert report.unchecked == []
    return [(problem.sequence, problem.kind) for problem in report.problems]


def report_of(client: AuthorityClient | None = None) -> Report:
    return verify(key=None if client is None else checkpoints.log_key(client))


def sql(statement: str, *parameters: object) -> None:
    """What somebody does who has the database and not the key."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)


def rewrite(sequence: int, *, with_key: bool = False, **fields: Any) -> None:
    """Change an entry and its hash; the seal as well for whoever has the key."""
    Entry.objects.filter(sequence=sequence).update(**fields)
    leaf = mapping.leaf_of(Entry.objects.get(sequence=sequence))
    changes = {"leaf": leaf.hex()}
    if with_key:
        changes["seal"] = keys.seal_entry(sequence, leaf)
    Entry.objects.filter(sequence=sequence).update(**changes)


# -- one entry, by who has only the database ----------------------------------------------------


def test_an_untouched_log_is_whole(chain: list[Entry]) -> None:
    assert found() == []
    out = StringIO()
    call_command("verify_audit", stdout=out)
    assert out.getvalue() == "the audit of 6 entries is whole; 0 signed checkpoints hold\n"


def test_an_empty_log_is_whole(db: None) -> None:
    assert found() == []


@pytest.mark.parametrize(
    "change",
    [
        {"action": "thing.other"},
        {"open_before": {"n": 99}},
        {"open_after": {}},
        {"open_name": ""},
        {"domain_name": "heating"},
        {"object_id": "9"},
        {"source": "api"},
        {"change_set": 7},
        {"at": "2020-01-01T00:00:00Z"},
        {"leaf": "0" * 64},
        {"leaf": "no hash"},
        {"seal": "none"},
        {"seal": "::"},
    ],
)
def test_changed(chain: list[Entry], change: dict[str, object]) -> None:
    Entry.objects.filter(sequence=3).update(**change)
    assert found() == [(3, "changed")]


def test_given_to_somebody_else(chain: list[Entry]) -> None:
    other = Actor.objects.create(user_id=9, name="eve", salt=b"s", pseudonym="0" * 64)
    Entry.objects.filter(sequence=3).update(actor=other)
    assert found() == [(3, "actor"), (3, "changed")]


def test_a_renamed_actor(chain: list[Entry]) -> None:
    sql("UPDATE audit_actor SET name = 'eve'")
    assert found() == [(1, "actor")]


def test_changed_with_a_new_hash(chain: list[Entry]) -> None:
    rewrite(3, object_id="9")
    assert found() == [(3, "changed")]


def test_several_changed_at_once(chain: list[Entry]) -> None:
    rewrite(1, object_id="9")
    Entry.objects.filter(sequence=6).update(object_id="9")
    Entry.objects.filter(sequence=3).delete()
    assert found() == [(1, "changed"), (3, "removed"), (6, "changed")]


@pytest.mark.parametrize("sequence", [1, 3, 6])
def test_removed(chain: list[Entry], sequence: int) -> None:
    Entry.objects.filter(sequence=sequence).delete()
    assert found() == [(sequence, "removed")]


def test_several_removed_at_the_end(chain: list[Entry]) -> None:
    Entry.objects.filter(sequence__gt=3).delete()
    (problem,) = report_of().problems
    assert (problem.sequence, problem.last, problem.kind) == (4, 6, "removed")
    assert problem.message == "entries 4 to 6 are gone"


def test_everything_removed(chain: list[Entry]) -> None:
    Entry.objects.all().delete()
    (problem,) = report_of().problems
    assert (problem.sequence, problem.last, problem.kind) == (1, 6, "removed")


def test_reordered(chain: list[Entry]) -> None:
    for old, new in ((3, 100), (4, 3), (100, 4)):
        Entry.objects.filter(sequence=old).update(sequence=new)
    problems = report_of().problems
    assert [(each.sequence, each.kind) for each in problems] == [
        (3, "reordered"),
        (4, "reordered"),
    ]
    assert problems[0].message == "entry 3 stood at 4 when it was written"


def test_moved_away(chain: list[Entry]) -> None:
    Entry.objects.filter(sequence=3).update(sequence=100)
    assert (100, "reordered") in found()
    assert (3, "removed") not in found()


def copy(sequence: int, to: int, **fields: Any) -> None:
    row = Entry.objects.get(sequence=sequence)
    row.pk, row.sequence = None, to
    for name, value in fields.items():
        setattr(row, name, value)
    row.save(force_insert=True)


def test_a_copy_past_the_end(chain: list[Entry]) -> None:
    copy(6, 7)
    assert found() == [(6, "head"), (7, "added")]


def test_a_forgery_past_the_end(chain: list[Entry]) -> None:
    copy(6, 7, object_id="forged")
    rewrite(7)
    assert found() == [(6, "head"), (7, "added")]


def test_a_copy_over_another(chain: list[Entry]) -> None:
    Entry.objects.filter(sequence=2).delete()
    copy(4, 2)
    (problem,) = report_of().problems
    assert problem.message == "entry 2 was replaced by a copy of entry 4"


def test_a_forgery_in_the_middle(chain: list[Entry]) -> None:
    for number in (6, 5, 4, 3):
        Entry.objects.filter(sequence=number).update(sequence=number + 1)
    copy(1, 3, object_id="forged")
    rewrite(3)
    kinds = dict(found())
    assert kinds[3] == "added"
    assert [kinds[number] for number in (4, 5, 6)] == ["reordered"] * 3


def test_the_end_of_the_log_is_forged_or_gone(chain: list[Entry]) -> None:
    whole = TreeHead.objects.values("size", "root", "peaks", "seal").get()
    for change in ({"root": "0" * 64}, {"root": "x"}, {"seal": ""}, {"peaks": ""}):
        TreeHead.objects.update(**change)
        assert found() == [(6, "head")], change
        TreeHead.objects.update(**whole)
    TreeHead.objects.update(size=3)
    assert found() == [(3, "head")]
    TreeHead.objects.all().delete()
    assert found() == [(6, "head")]


def test_who_cuts_entries_and_puts_an_earlier_end_back_is_seen_by_the_checkpoints(
    chain: list[Entry], client: AuthorityClient
) -> None:
    earlier = TreeHead.objects.values("size", "root", "peaks", "seal").get()
    services.write(actor=None, action="a.b", object_type="a", object_id=1)
    assert checkpoints.make_checkpoint(authority=client) is not None
    Entry.objects.filter(sequence=7).delete()
    TreeHead.objects.update(**earlier)
    assert found(client) == [(7, "removed")]
    Checkpoint.objects.all().delete()  # the witness file has it still
    assert found(client) == [(7, "removed")]


def test_a_persons_key_was_changed(chain: list[Entry]) -> None:
    sql("UPDATE audit_person SET salt = %s", b"x" * 32)
    assert Entry.objects.get(sequence=5).object_name == "[unreadable]"
    assert found() == [(5, "changed")]


def test_a_kept_node_was_changed(db: None) -> None:
    entries = [services.NewEntry(action="a.b", object_type="a", object_id=n) for n in range(600)]
    services.write_many(actor=None, entries=entries)
    assert TreeNode.objects.count() == 2
    assert found() == []
    TreeNode.objects.filter(place=1).update(hash="0" * 64)
    (problem,) = report_of().problems
    assert (problem.kind, problem.sequence, problem.last) == ("tree", 257, 512)


# -- by who has the key of the control plane as well --------------------------------------------


def reseal_end() -> None:
    """Make the head fit whatever the entries are now."""
    frontier = tree.frontier(TreeHead(size=0))
    for leaf in Entry.objects.order_by("sequence").values_list("leaf", flat=True):
        frontier.append(bytes.fromhex(leaf))
    root = frontier.root()
    TreeHead.objects.update(
        size=frontier.size,
        root=root.hex(),
        peaks=b"".join(frontier.peaks).hex(),
        seal=keys.seal_head(frontier.size, root),
    )


def test_a_history_rewritten_with_the_key_is_not_what_was_signed(
    chain: list[Entry], client: AuthorityClient
) -> None:
    assert checkpoints.make_checkpoint(authority=client) is not None
    assert found(client) == []
    rewrite(3, with_key=True, object_id="9")
    reseal_end()
    report = report_of(client)
    assert {problem.kind for problem in report.problems} == {"checkpoint"}
    assert "the entries up to 6 are not those of" in report.problems[0].message


def test_nothing_is_signed_that_does_not_continue_what_was(
    chain: list[Entry], client: AuthorityClient, tmp_path: Path
) -> None:
    checkpoints.make_checkpoint(authority=client)
    assert checkpoints.make_checkpoint(authority=client) is None
    rewrite(3, with_key=True, object_id="9")
    reseal_end()
    services.write(actor=None, action="a.b", object_type="a", object_id=1)
    with pytest.raises(checkpoints.CheckpointRefused, match="does not continue"):
        checkpoints.make_checkpoint(authority=client)
    Entry.objects.filter(sequence__gt=4).delete()
    reseal_end()
    Checkpoint.objects.all().delete()
    witness.path().unlink()
    with pytest.raises(checkpoints.CheckpointRefused, match="forget-audit"):
        checkpoints.make_checkpoint(authority=client)
    forget_log(tmp_path / "state")
    made = checkpoints.make_checkpoint(authority=client)
    assert made is not None
    assert made.size == 4


def test_an_end_that_does_not_fit_is_not_signed(
    chain: list[Entry], client: AuthorityClient
) -> None:
    TreeHead.objects.update(root="0" * 64)
    with pytest.raises(checkpoints.CheckpointRefused, match="verify_audit"):
        checkpoints.make_checkpoint(authority=client)


# -- checkpoints themselves ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"root": "0" * 64}, "says something else"),
        ({"note": "x"}, "is no checkpoint"),
    ],
)
def test_a_checkpoint_was_changed(
    chain: list[Entry], client: AuthorityClient, change: dict[str, str], message: str
) -> None:
    checkpoints.make_checkpoint(authority=client)
    Checkpoint.objects.update(**change)
    (problem,) = report_of(client).problems
    assert problem.kind == "checkpoint"
    assert message in problem.message


def test_a_checkpoint_of_another_key(chain: list[Entry], client: AuthorityClient) -> None:
    checkpoints.make_checkpoint(authority=client)
    report = verify(key=LogKey("portcullis/audit", bytes(32)))
    assert {problem.kind for problem in report.problems} == {"checkpoint"}
    assert all("signature" in problem.message for problem in report.problems)


def test_a_checkpoint_is_gone_from_the_database(
    chain: list[Entry], client: AuthorityClient
) -> None:
    for number in range(3):
        services.write(actor=None, action="a.b", object_type="a", object_id=number)
        checkpoints.make_checkpoint(authority=client)
    Checkpoint.objects.filter(size=8).delete()
    assert found(client) == [(8, "checkpoint")]
    Checkpoint.objects.all().delete()
    witness.path().write_text(witness.path().read_text().splitlines()[0] + "\n")
    assert found(client) == []  # the last line may be ahead of the database
    services.write(actor=None, action="a.b", object_type="a", object_id=4)
    forged = witness.path().read_text()
    checkpoints.make_checkpoint(authority=client)
    assert list(Checkpoint.objects.values_list("size", flat=True)) == [7, 10]
    witness.path().write_text(forged + "half a line")
    assert [kind for _number, kind in found(client)] == ["checkpoint"]


# -- without a key ------------------------------------------------------------------------------


def test_a_log_under_another_key_is_not_written_and_not_called_sound(
    chain: list[Entry], settings: Any
) -> None:
    settings.AUDIT_KEY = "another key, of more than 32 characters"
    report = report_of()
    assert report.problems == []
    assert report.unchecked == ["7 seals that were made under another audit key"]
    with pytest.raises(ImproperlyConfigured, match="another audit key"):
        services.write(actor=None, action="a.b", object_type="a", object_id=1)
    Entry.objects.filter(sequence=3).update(object_id="9")
    assert [each.sequence for each in report_of().problems] == [3]


def command(*arguments: str) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("verify_audit", *arguments, stdout=out)
    except CommandError as failure:
        return failure.returncode, out.getvalue()
    return 0, out.getvalue()


def test_the_command_names_the_places_and_says_by_its_exit_code(
    chain: list[Entry], client: AuthorityClient, tmp_path: Path, settings: Any
) -> None:
    settings.AUTHORITY_SOCKET = tmp_path / "nowhere.sock"
    checkpoints.make_checkpoint(authority=client)
    code, text = command()
    assert code == 2
    assert "not checked: signatures of checkpoints: the authority does not answer" in text
    key = checkpoints.log_key(client)
    file = tmp_path / "audit.vkey"
    file.write_text(verifier_key(key.origin, key.public) + "\n")
    assert command("--key", str(file)) == (
        0,
        "the audit of 6 entries is whole; 2 signed checkpoints hold\n",
    )
    Entry.objects.filter(sequence=2).update(object_id="x")
    Entry.objects.filter(sequence=4).delete()
    code, text = command("--key", str(file))
    assert code == 1
    assert text.splitlines() == [
        "2: changed: entry 2 was changed",
        "4: removed: entry 4 is gone",
    ]
    code, text = command("--key", str(file), "--json")
    assert code == 1
    answer = json.loads(text)
    assert answer["problems"][0] == {
        "sequence": 2,
        "last": 2,
        "kind": "changed",
        "message": "entry 2 was changed",
    }
    file.write_text("nonsense")
    assert command("--key", str(file))[0] == 2


# -- writing ------------------------------------------------------------------------------------


def test_what_is_rolled_back_leaves_no_gap(chain: list[Entry]) -> None:
    with transaction.atomic():
        services.write(actor=None, action="a.b", object_type="a", object_id=1)
        transaction.set_rollback(True)
    services.write(actor=None, action="a.b", object_type="a", object_id=1)
    assert Entry.objects.order_by("-sequence").values_list("sequence", flat=True)[0] == 7
    assert found() == []


def test_an_entry_says_where_the_change_came_from(chain: list[Entry]) -> None:
    assert chain[0].source == "system"
    with journal.source("file"):
        made = services.write(actor=None, action="a.b", object_type="a", object_id=1)
    assert (made.source, made.change_set) == ("file", None)
    assert found() == []


def test_searching(chain: list[Entry]) -> None:
    services.write(actor=None, action="other.made", object_type="other", object_id=1)
    assert [e.sequence for e in selectors.search(action="other.made")] == [7]
    assert [e.sequence for e in selectors.search(text="THING 2")] == [2]
    assert [e.sequence for e in selectors.search(domain_names={"flights"}, object_id="5")] == [5]
    assert [e.sequence for e in selectors.search(person="p-1")] == [5]
    assert [e.sequence for e in selectors.search(object_name="thing 4")] == [4]
    assert [e.sequence for e in selectors.search(text="thing 5")] == []
    assert [e.sequence for e in selectors.search(text="thing 5", persons=["p-1"])] == [5]
    assert not selectors.search(domain_names=set())


def test_many_entries_at_once_stand_in_the_log_as_if_written_one_by_one(
    chain: list[Entry], django_assert_max_num_queries: Any
) -> None:
    new = (
        services.NewEntry(
            action="thing.created",
            object_type="thing",
            object_id=n,
            after={"number": n},
            person=f"p-{n}" if n % 2 else "",
        )
        for n in range(5000)
    )
    with django_assert_max_num_queries(200):
        numbers = services.write_many(actor=None, entries=new)
    assert numbers == range(7, 5007)
    assert found() == []
    entry = Entry.objects.get(sequence=5006)
    assert (entry.after, entry.open_after) == ({"number": 4999}, None)
    assert services.write_many(actor=None, entries=[]) == range(0)
    assert Person.objects.count() == 2500


def test_many_entries_are_written_all_or_none(chain: list[Entry]) -> None:
    def broken() -> Iterator[services.NewEntry]:
        for n in range(3000):
            yield services.NewEntry(action="thing.created", object_type="thing", object_id=n)
        raise OSError("the file ends here")

    with pytest.raises(OSError, match="ends here"):
        services.write_many(actor=None, entries=broken())
    assert Entry.objects.count() == 6
    assert found() == []
