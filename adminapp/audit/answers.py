"""What the authority answered, from its own journal into the audit.

The authority keeps a journal of every answer; here its entries become entries of the audit, in
order and whole, so that they are shown, exported and signed with everything else. Each names the
digest of the one before it: the control plane cannot leave one out, and an authority cannot
tell another history later than it told before, without being seen.
"""

from __future__ import annotations

from typing import Any, Final

from adminapp.audit import services
from adminapp.audit.models import Entry
from adminapp.core.authority import AuthorityClient, JournalHead, get_authority
from policyengine.primitives.canonical import dumps
from policyengine.primitives.hashing import digest

ANSWERED: Final = "authority.answered"
BROKEN: Final = "authority.journal-broken"
BATCH: Final = 50
"""Answers in one entry of the audit."""
MOST: Final = 5_000
"""Answers taken at one time."""
_START: Final = JournalHead(0, "0" * 64)
# They follow from keeping the audit, or are counts of leases: alone they can wait for more.
_QUIET: Final = frozenset(("sign_checkpoint", "answers.counted"))


def take_answers(*, authority: AuthorityClient | None = None) -> int:
    """Write into the audit what the authority answered since the last time; returns how many.

    Raises:
        AuthorityError: it does not answer.
    """
    client = authority or get_authority()
    taken = 0
    while taken < MOST:
        known = known_head()
        found = client.journal_entries(after=known.size, limit=BATCH)
        if not found and client.journal_head().size < known.size:
            # Restored from before: it goes on from where it is now.
            _broken(known, client.journal_head())
            continue
        if not found or (len(found) < BATCH and all(each.get("op") in _QUIET for each in found)):
            break
        taken += _take(known, found)
    return taken


def known_head() -> JournalHead:
    """How far the journal was when the audit took from it last."""
    row = Entry.objects.filter(action__in=(ANSWERED, BROKEN)).order_by("-sequence").first()
    return _START if row is None else JournalHead(row.after["size"], row.after["digest"])


@services.change
def _take(known: JournalHead, found: list[dict[str, Any]]) -> int:
    head = known
    whole = []
    for each in found:
        if each.get("before") != head.digest or each.get("n") != head.size + 1:
            break
        head = JournalHead(head.size + 1, digest(dumps(each)))
        whole.append(each)
    if whole:
        _write(ANSWERED, head, {"answers": whole})
    else:
        # It is not what was told before. That is written down, and then it goes on from there.
        first = found[0]
        _broken(known, JournalHead(int(first["n"]) - 1, str(first["before"])))
    return len(whole)


@services.change
def _broken(known: JournalHead, found: JournalHead) -> None:
    expected = {"size": known.size, "digest": known.digest}
    _write(BROKEN, found, {"expected": expected})


def _write(action: str, head: JournalHead, more: dict[str, Any]) -> None:
    services.write(
        actor=None,
        action=action,
        object_type="authority",
        object_id=str(head.size),
        object_name=f"journal up to {head.size}",
        after={"size": head.size, "digest": head.digest, **more},
    )
