"""The authority's journal: every answer, in a chain, whole after any death; revisions only rise."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from policyengine.bundles import Lease, Notice, contexts, seal_lease, seal_notice
from policyengine.bundles.header import PartRef
from policyengine.primitives import canonical
from policyengine.primitives.hashing import digest
from policyengine.primitives.hpke import generate_sealing_key
from policyengine.primitives.rand import SYSTEM_RANDOM
from policyengine.primitives.signatures import verify as verify_signature
from tasks.authority import tally
from tasks.authority.__main__ import main
from tasks.authority.journal import START, Head, Journal, lines, parts_of, verify
from tasks.authority.operations import Operations
from tasks.authority.store import StateError, create_state, load_state
from tests.unit.authority.test_authority import header

NOW = 1_800_000_000.0


def made(folder: Path, count: int = 5, **options: Any) -> Journal:
    journal = Journal(folder, now=lambda: NOW, **options)
    for number in range(count):
        journal.append({"op": "create_key", "key_id": f"tag:a:b:{number}", "outcome": "done"})
    return journal


def file_of(folder: Path, number: int = 1) -> Path:
    return folder / "journal" / f"{number:06}.jsonl"


def chain(folder: Path) -> list[str]:
    """The digests that each line names and has, by an own reading of the files."""
    found = []
    for path in sorted((folder / "journal").glob("*.jsonl")):
        for raw in path.read_bytes().split(b"\n")[:-1]:
            entry = json.loads(raw)
            assert entry["before"] == (found[-1] if found else START)
            assert entry["n"] == len(found) + 1
            found.append(digest(raw))
    return found


def test_entries_stand_in_a_chain_that_another_start_goes_on_with(tmp_path: Path) -> None:
    first = made(tmp_path)
    assert first.head == Head(6, chain(tmp_path)[-1])
    again = made(tmp_path, 3)
    assert again.head == verify(tmp_path / "journal") == Head(9, chain(tmp_path)[-1])
    assert file_of(tmp_path).stat().st_mode & 0o777 == 0o600
    told = again.entries(after=6, limit=2)
    assert [(entry["n"], entry["key_id"]) for entry in told] == [(7, "tag:a:b:0"), (8, "tag:a:b:1")]


def test_it_is_whole_after_a_death_at_any_byte(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    whole = made(tmp_path / "whole", 3)
    data = file_of(tmp_path / "whole").read_bytes()
    assert whole.head.size == 4
    for cut in range(len(data)):
        folder = tmp_path / f"cut-{cut}"
        (folder / "journal").mkdir(parents=True)
        file_of(folder).write_bytes(data[:cut])
        # What was answered is there, what was never finished is not, and it goes on.
        finished = data[:cut].count(b"\n")
        journal = Journal(folder, now=lambda: NOW)
        assert journal.head.size == max(finished, 1)
        journal.append({"op": "unwrap", "outcome": "done"})
        assert verify(folder / "journal").size == max(finished, 1) + 1
        assert chain(folder)


@pytest.mark.parametrize("line", range(5))
def test_what_was_changed_left_out_or_exchanged_is_found(tmp_path: Path, line: int) -> None:
    made(tmp_path)
    path = file_of(tmp_path)
    kept = path.read_bytes().splitlines(keepends=True)
    changed = [*kept[:line], kept[line].replace(b'"at":"2027', b'"at":"2026'), *kept[line + 1 :]]
    without = [*kept[:line], *kept[line + 1 :]]
    exchanged = [*kept[:line], kept[line + 1], kept[line], *kept[line + 2 :]]
    damaged = [*kept[:line], b"no entry\n", *kept[line + 1 :]]
    for bad in (changed, without, exchanged, damaged):
        assert bad != kept
        path.write_bytes(b"".join(bad))
        if bad is without and line == 0:
            # Only older files may be missing, and then the newest says what was before.
            assert verify(tmp_path / "journal").size == 6
            continue
        with pytest.raises(StateError):
            verify(tmp_path / "journal")
        with pytest.raises(StateError):
            Journal(tmp_path, now=lambda: NOW)
        assert main(["journal", "verify", "--state", str(tmp_path)]) == 2


def test_a_full_file_is_followed_by_another_and_old_ones_may_go(tmp_path: Path) -> None:
    journal = made(tmp_path, 40, part_bytes=900)
    folder = tmp_path / "journal"
    assert len(parts_of(folder)) > 3
    assert journal.head == verify(folder) == Head(len(chain(tmp_path)), chain(tmp_path)[-1])
    assert [line.entry["n"] for line in lines(folder, after=17)] == [
        *range(18, 41 + len(parts_of(folder)))
    ]
    # A file that was begun and has no whole line yet is as if it were not there.
    for torn in (b"", b'{"at":'):
        file_of(tmp_path, parts_of(folder)[-1] + 1).write_bytes(torn)
        assert Journal(tmp_path, now=lambda: NOW).head == journal.head
        assert journal.append({"op": "unwrap", "outcome": "done"}) == verify(folder).size
    file_of(tmp_path, 2).unlink()
    with pytest.raises(StateError):
        verify(folder)
    file_of(tmp_path, 1).unlink()
    assert verify(folder) == journal.head == made(tmp_path, 0).head


def test_several_may_write_at_once_and_each_sees_all(tmp_path: Path) -> None:
    journals = [made(tmp_path, 0, part_bytes=4000) for _ in range(3)]

    def write(journal: Journal, name: int) -> None:
        for number in range(20):
            journal.append({"op": "unwrap", "key_id": f"tag:a:b{name}:{number}", "outcome": "done"})

    threads = [
        threading.Thread(target=write, args=(journal, 2 * place + half))
        for place, journal in enumerate(journals)
        for half in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({journal.head for journal in journals}) == 1
    written = Counter(line.entry.get("key_id") for line in lines(tmp_path / "journal"))
    del written[None]
    assert len(written) == 120
    assert set(written.values()) == {1}


def test_nothing_is_answered_that_cannot_be_written(tmp_path: Path) -> None:
    operations = Operations(create_state(tmp_path, SYSTEM_RANDOM), now=lambda: NOW)
    asked = {"op": "create_key", "key_id": "tag:heating:a:1"}
    assert operations.answer(asked)["ok"] is True
    # A folder where the file is to be opened: what a disk that fails looks like.
    moved = file_of(tmp_path).rename(tmp_path / "aside")
    file_of(tmp_path).mkdir()
    refused = {"ok": False, "error": "the journal cannot be written"}
    assert operations.answer(asked) == refused
    file_of(tmp_path).rmdir()
    moved.rename(file_of(tmp_path))
    # Nobody knows what was written: it takes a new start.
    assert operations.answer(asked) == refused
    assert Operations(load_state(tmp_path)).answer(asked)["ok"] is True


class Signer:
    """An authority that is asked for signatures, started anew at will."""

    def __init__(self, folder: Path) -> None:
        self.state = create_state(folder, SYSTEM_RANDOM)
        self.folder = folder
        self.now = NOW
        self.start()

    def start(self) -> None:
        self.operations = Operations(self.state, now=lambda: self.now)

    def sign(self, purpose: str, context: bytes, payload: bytes) -> dict[str, Any]:
        return self.operations.answer(
            {
                "op": "sign",
                "purpose": purpose,
                "context_b64": canonical.b64(context),
                "payload_b64": canonical.b64(payload),
            }
        )

    def notices(self, payloads: list[bytes]) -> list[bytes]:
        encoded = [canonical.b64(payload) for payload in payloads]
        asked = {"op": "sign_notices", "payloads_b64": encoded, "about": {"kind": "principal"}}
        found = self.operations.answer(asked)["result"]["signatures"]
        return [canonical.unb64(signature) for signature in found]

    def bundle(self, revision: int, scope: bytes = b"scope", **changes: Any) -> dict[str, Any]:
        parts = (PartRef("scope", digest(scope), 5), PartRef("keys", digest(os.urandom(8)), 4))
        made = header(**{"revision": revision, "parts": parts, **changes})
        return self.sign("policy", contexts.BUNDLE, canonical.dumps(made.to_json()))

    def top(self) -> int:
        asked = {"op": "signed_revision", "domain": "heating"}
        return int(self.operations.answer(asked)["result"]["revision"])

    def entries(self) -> list[dict[str, Any]]:
        asked = {"op": "journal_entries", "after": 0, "limit": 500}
        found: list[dict[str, Any]] = self.operations.answer(asked)["result"]["entries"]
        return found


@pytest.fixture
def signer(tmp_path: Path) -> Signer:
    return Signer(tmp_path / "state")


def test_revisions_rise_for_each_audience_whatever_happens_between(signer: Signer) -> None:
    assert signer.top() == 0
    for revision in (1, 3, 3, 7):
        # Made again it is the same: other seals and times, the same content.
        assert signer.bundle(revision, issued=revision * 10)["ok"] is True
    assert signer.bundle(5, audience="client:ada")["ok"] is True
    for _ in range(2):
        older = signer.bundle(6)
        assert older["code"] == "revision"
        assert "revision 7 of `heating` was signed for `agent:alpha`" in older["error"]
        assert signer.bundle(7, b"other")["code"] == "revision"
        assert signer.bundle(7)["ok"] is True
        assert signer.bundle(4, audience="client:ada")["ok"] is False
        assert signer.top() == 7
        signer.start()
    assert signer.bundle(8, b"other")["ok"] is True
    assert signer.bundle(1, domain="flights")["ok"] is True
    assert signer.top() == 8


def delta(signer: Signer, revision: int, base: bytes, content: bytes) -> dict[str, Any]:
    """A delta from one content; what it changes stands in its parts."""
    ends = {"content": digest(b"what is held after " + content), "previous": digest(b"before")}
    return signer.bundle(revision, content, form="delta", base=digest(base), **ends)


def test_of_a_revision_each_form_has_one_content(signer: Signer) -> None:
    """A revision goes out as a whole and as deltas from what agents hold, none of them in two."""
    assert signer.bundle(4)["ok"] is True
    for base in (b"one", b"two"):
        assert delta(signer, 4, base, b"scope from " + base)["ok"] is True
    for _ in range(2):
        for other in (
            signer.bundle(4, b"another"),
            delta(signer, 4, b"one", b"another"),
            delta(signer, 4, b"one", b"scope from two"),
            delta(signer, 4, b"two", b"another"),
        ):
            assert (other["ok"], other["code"]) == (False, "revision")
            assert "another content" in other["error"]
        # What was refused took nothing's place: each goes out again as it was.
        assert signer.bundle(4)["ok"] is True
        assert delta(signer, 4, b"one", b"scope from one")["ok"] is True
        signer.start()  # and so it is after another start, from the journal alone
    assert delta(signer, 3, b"one", b"scope from one")["code"] == "revision"
    assert delta(signer, 5, b"one", b"another")["ok"] is True


def test_a_clients_keys_are_content(signer: Signer) -> None:
    # Unlike an agent's they are not sealed anew.
    assert signer.bundle(1, audience="client:ada")["ok"] is True
    assert signer.bundle(1, audience="client:ada")["ok"] is False


def test_messages_as_they_are_really_signed_are_described(signer: Signer) -> None:
    """They are signed together with the address of their audience."""

    def sign(context: bytes, payload: bytes) -> bytes:
        if context == contexts.NOTICE:
            return signer.notices([payload])[0]
        return canonical.unb64(signer.sign("lease", context, payload)["result"]["signature"])

    recipient = generate_sealing_key().public
    notice = Notice(4, "agent:alpha", "heating", "r1", ("handle",), "revoked", 1)
    seal_notice(notice, sign=sign, recipient=recipient)
    lease = Lease("agent:alpha", "0" * 32, 1.0, {}, {})
    seal_lease(lease, sign=sign, recipient=recipient)
    signer.operations.close()
    signer.start()
    told = [each for each in signer.entries() if each.get("purpose") == "notice"]
    assert [(each["audience"], each["number"], each["revocation"]) for each in told] == [
        ("agent:alpha", 4, "r1")
    ]
    assert counted(signer) == [{"lease agent:alpha": 1}]


def test_notices_are_signed_together_and_each_stands_in_the_journal(signer: Signer) -> None:
    payloads = [canonical.dumps({"audience": f"agent:{name}", "number": 4}) for name in "abc"]
    public = canonical.unb64(signer.operations.answer({"op": "anchors"})["result"]["notice"])
    for payload, signature in zip(payloads, signer.notices(payloads), strict=True):
        verify_signature(public, signature, contexts.NOTICE, payload)
    told = [each for each in signer.entries() if each["op"] == "sign"]
    assert [(each["audience"], each["content"], each["about"]) for each in told] == [
        (f"agent:{name}", digest(payload), {"kind": "principal"})
        for name, payload in zip("abc", payloads, strict=True)
    ]
    assert all((each["purpose"], each["outcome"]) == ("notice", "done") for each in told)
    assert verify(signer.folder / "journal").size == 1 + len(told)


@pytest.mark.parametrize("payloads", [[], [""] * 101, "text", None, [1], ["?"]])
def test_lists_of_notices_that_are_none_are_refused_whole(signer: Signer, payloads: Any) -> None:
    asked = {"op": "sign_notices", "payloads_b64": payloads, "about": {}}
    assert signer.operations.answer(asked)["ok"] is False
    assert [each.get("outcome") for each in signer.entries()[1:]] == ["refused"]


@pytest.mark.parametrize("payload", [b"", b"payload", b"[]", b"{}", b'{"audience":"agent:alpha"}'])
def test_the_policy_key_signs_headers_only(signer: Signer, payload: bytes) -> None:
    assert signer.sign("policy", contexts.BUNDLE, payload)["ok"] is False


def test_every_answer_stands_in_the_journal_and_no_secret_does(signer: Signer) -> None:
    key_id = "encoding:heating:alpha:1"
    wrapped = signer.operations.answer({"op": "create_key", "key_id": key_id})["result"]["wrapped"]
    asked = {"op": "unwrap", "key_id": key_id, "wrapped": wrapped}
    key = signer.operations.answer(asked)["result"]["key"]
    signer.bundle(1)
    signer.bundle(1, b"other")
    signer.operations.answer({"op": "unwrap", "key_id": "key:a:b:1", "wrapped": "x"})
    signer.operations.answer({"op": key, "more": key})
    signer.operations.answer(["?"])
    notice = canonical.dumps({"audience": "agent:alpha", "domain": "heating", "number": 4})
    signer.notices([notice])
    told = signer.entries()
    assert [(entry["op"], entry.get("outcome")) for entry in told] == [
        ("journal.opened", None),
        ("create_key", "done"),
        ("unwrap", "done"),
        ("bundle.signed", "done"),
        ("sign", "refused"),
        ("unwrap", "refused"),
        ("unknown", "refused"),
        ("unknown", "refused"),
        ("sign", "done"),
    ]
    assert told[2]["key_id"] == key_id
    assert (told[3]["audience"], told[3]["revision"]) == ("agent:alpha", 1)
    assert "another content" in told[4]["reason"]
    assert (told[8]["purpose"], told[8]["number"]) == ("notice", 4)
    assert told[8]["content"] == digest(notice)
    stored = file_of(signer.folder).read_bytes()
    for secret in (key, wrapped, canonical.b64(notice)):
        assert secret.encode() not in stored
    head = signer.operations.answer({"op": "journal_head"})["result"]
    assert head == {"size": 9, "digest": chain(signer.folder)[-1]}


def leases(signer: Signer, names: Iterable[str]) -> None:
    for name in names:
        payload = canonical.dumps({"audience": name})
        assert signer.sign("lease", contexts.LEASE, payload)["ok"] is True


def counted(signer: Signer) -> list[dict[str, int]]:
    entries = [each for each in signer.entries() if each["op"] == "answers.counted"]
    # What was asked of the journal by the test itself is counted too.
    return [found for each in entries if (found := _without_reads(each["answers"]))]


def _without_reads(answers: dict[str, int]) -> dict[str, int]:
    return {what: count for what, count in answers.items() if what != "journal_entries"}


def test_leases_are_counted_by_the_minute_and_audience(signer: Signer) -> None:
    leases(signer, ["agent:alpha", "agent:beta", "agent:alpha"])
    signer.operations.tick()
    assert counted(signer) == []
    signer.now += tally.SECONDS
    signer.operations.tick()
    signer.now += tally.SECONDS
    leases(signer, ["agent:beta"])
    signer.operations.close()
    signer.start()
    first, second = counted(signer)
    assert (first["lease agent:alpha"], first["lease agent:beta"]) == (2, 1)
    assert second["lease agent:beta"] == 1


def test_counts_outlive_the_process_and_are_never_taken_twice(signer: Signer) -> None:
    leases(signer, ["agent:alpha"] * 3)
    # Killed here: nothing is closed. What was being written is cut.
    folder = signer.folder / "journal"
    (left,) = folder.glob("tally-*")
    left.write_bytes(left.read_bytes() + b"lease agent:be")
    kept = left.read_bytes()
    signer.start()
    assert counted(signer) == [{"lease agent:alpha": 3}]
    # Killed between the entry and taking the file away.
    left.write_bytes(kept)
    signer.start()
    assert counted(signer) == [{"lease agent:alpha": 3}]


def test_the_command_line_shows_the_journal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path, 3)
    assert main(["journal", "verify", "--state", str(tmp_path)]) == 0
    assert f"4 entries, head {chain(tmp_path)[-1]}" in capsys.readouterr().out
    assert main(["journal", "show", "--state", str(tmp_path), "--after", "2", "--limit", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 3
    assert main(["journal", "verify", "--state", str(tmp_path / "nowhere")]) == 2
