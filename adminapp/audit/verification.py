"""Reads the whole audit again and finds what somebody did to it outside Portcullis.

Every entry is checked by itself (its content against its hash, hash and number against its seal)
and all of them together: the tree over them must be that of the stored nodes, of the head and of
every signed checkpoint, those of the witness file included. Reading goes on in batches and locks
nothing; entries that are added meanwhile are checked as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from adminapp.audit import keys, mapping, tree, witness
from adminapp.audit.checkpoints import log_key
from adminapp.audit.models import Actor, Checkpoint, Entry, TreeHead, TreeNode
from adminapp.audit.promises import LogKey, Promise, promises
from adminapp.core.authority import AuthorityError
from policyengine.errors import DecryptionError, PortcullisError
from policyengine.primitives import merkle

Kind = Literal["changed", "removed", "reordered", "added", "head", "tree", "checkpoint", "actor"]
KINDS: tuple[str, ...] = get_args(Kind)
Progress = Callable[[int, int], None]
BATCH = 1000


@dataclass(frozen=True)
class ChainProblem:
    """One thing that was done to the audit.

    Args:
        sequence: the number of the entry concerned, the first of them if there are several.
        kind: what happened to it; `head`, `tree`, `checkpoint` and `actor` are what vouches for
            entries, and were tampered with themselves or show that entries were.
        message: the same for a person.
        last: the number of the last entry concerned.
    """

    sequence: int
    kind: Kind
    message: str
    last: int


@dataclass
class Report:
    """What was found.

    Args:
        size: number of entries that were read.
        problems: everything that was done to them, in order.
        unchecked: what could not be checked, and why.
        checkpoints: number of signed checkpoints that hold.
    """

    size: int = 0
    problems: list[ChainProblem] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    checkpoints: int = 0


def verify(
    *, key: LogKey | None, no_key: str = "there is no key", progress: Progress | None = None
) -> Report:
    """Check everything.

    Args:
        key: of the signed checkpoints; None leaves their signatures unchecked.
        no_key: why there is no key, for the report.
        progress: told how many entries are done, and how many there are, after every batch.
    """
    promised = promises(key)
    reading = _Reading(promised)
    total = _head_size()
    while True:
        for batch in _batches(reading.last):
            for row in batch:
                reading.take(row)
            if progress is not None:
                progress(reading.last, max(total, reading.last))
        # The head is read after the entries: if it is ahead, they were added meanwhile, or cut.
        head = TreeHead.objects.first()
        behind = head is not None and head.size > reading.last
        if not behind or not Entry.objects.filter(sequence__gt=reading.last).exists():
            break
    report = reading.finish(head)
    if key is None and promised:
        report.unchecked.append(f"signatures of checkpoints: {no_key}")
    return report


def verify_with_authority(*, progress: Progress | None = None) -> Report:
    """`verify` with the key of the authority that signs; without one while it does not answer."""
    try:
        key = log_key() if witness.exists() or Checkpoint.objects.exists() else None
    except AuthorityError as error:
        return verify(key=None, no_key=str(error), progress=progress)
    return verify(key=key, progress=progress)


# -- reading ------------------------------------------------------------------------------------

_FIELDS = (
    "sequence",
    "at",
    "source",
    "change_set",
    "action",
    "domain_name",
    "object_type",
    "object_id",
    "open_name",
    "open_before",
    "open_after",
)


@dataclass(frozen=True)
class _Row:
    fields: dict[str, Any]
    salt: bytes | None
    leaf: bytes
    seal: str

    @property
    def number(self) -> int:
        number: int = self.fields["sequence"]
        return number

    def is_what_was_written_at(self, number: int) -> bool:
        """Whether the content is what was hashed, if it was written under this number."""
        return mapping.leaf(**{**self.fields, "sequence": number}) == self.leaf

    def opens(self) -> bool:
        """Whether the person's salt still opens what is sealed about them, or was erased."""
        if self.salt is None:
            return True
        key = keys.of_person(self.fields["person"], self.salt)
        try:
            keys.open_content(key, self.number, self.fields["sealed"])
        except DecryptionError:
            return False
        return True


def _batches(last: int) -> Iterator[list[_Row]]:
    """All rows after `last` in order; those that are added meanwhile included."""
    others = ("actor__pseudonym", "person__pseudonym", "person__salt", "sealed", "leaf", "seal")
    rows = Entry.objects.select_related(None).order_by("sequence").values_list(*_FIELDS, *others)
    while batch := list(rows.filter(sequence__gt=last)[:BATCH]):
        last = batch[-1][0]
        yield [_row(values) for values in batch]


def _row(values: tuple[Any, ...]) -> _Row:
    fields = dict(zip(_FIELDS, values, strict=False))
    actor, person, salt, sealed, leaf, seal = values[len(_FIELDS) :]
    fields |= {"actor": actor, "person": person}
    fields["sealed"] = None if sealed is None else bytes(sealed)
    try:
        hashed = bytes.fromhex(leaf)
    except ValueError:
        hashed = b""
    return _Row(fields, None if salt is None else bytes(salt), hashed, seal)


def _head_size() -> int:
    head = TreeHead.objects.first()
    return 0 if head is None else head.size


class _Reading:
    """Takes the entries in their order; keeps what is wrong, and the edge of the tree."""

    def __init__(self, promised: list[Promise]) -> None:
        self.last = 0
        self._report = Report()
        self._promised = promised
        self._next = 0  # the first promise that was not reached yet
        self._frontier: merkle.Frontier | None = merkle.Frontier()
        self._broken = False  # an entry is not what was written: the tree shows that, too
        self._gaps: list[tuple[int, int]] = []
        self._changed: set[int] = set()
        self._moved: dict[int, int] = {}  # where an entry stands -> where it was written
        self._strange: set[int] = set()  # what nobody with the key wrote, or not whole
        self._other_keys = 0
        self._keep_promises()

    # -- one entry ------------------------------------------------------------------------------

    def take(self, row: _Row) -> None:
        if row.number > self.last + 1:
            self._gaps.append((self.last + 1, row.number - 1))
            # Nothing is known of the tree any more; what follows is checked entry by entry.
            self._frontier, self._broken = None, True
        self.last = row.number
        self._report.size += 1
        self._check(row)
        self._grow(row)
        self._keep_promises()

    def _check(self, row: _Row) -> None:
        seal = keys.read_seal(row.seal, row.leaf)
        if seal is None or seal.genuine is False:
            self._strange.add(row.number)
            self._broken = True
            return
        home = seal.number if seal.genuine else row.number
        self._other_keys += seal.genuine is None
        # A hash in its place leaves the tree whole, even if the content is not what was hashed.
        self._broken = self._broken or home != row.number
        if not row.is_what_was_written_at(home):
            self._changed.add(row.number)
        elif home != row.number:
            self._moved[row.number] = home
        elif seal.genuine and not row.opens():
            self._say(row.number, "changed", f"the person's key to entry {row.number} was changed")

    def _grow(self, row: _Row) -> None:
        if self._frontier is None:
            return
        if len(row.leaf) != merkle.HASH_SIZE:
            self._frontier, self._broken = None, True
            return
        for node in tree.stored(self._frontier.append(row.leaf)):
            self._compare(node)

    def _compare(self, node: TreeNode) -> None:
        kept = TreeNode.objects.filter(level=node.level, place=node.place)
        if self._broken or kept.values_list("hash", flat=True).first() == node.hash:
            return
        width = tree.WIDTH**node.level
        first, last = node.place * width + 1, (node.place + 1) * width
        message = f"the tree's node over entries {first} to {last} was changed"
        self._say(first, "tree", message, last)

    def _keep_promises(self) -> None:
        while self._next < len(self._promised) and self._promised[self._next].size <= self.last:
            self._keep(self._promised[self._next])
            self._next += 1

    def _keep(self, promise: Promise) -> None:
        if promise.wrong:
            self._say(promise.size, "checkpoint", promise.wrong)
        elif self._frontier is None or self._frontier.size != promise.size:
            return
        elif self._frontier.root() == promise.root:
            self._report.checkpoints += 1
        elif not self._broken:
            message = f"the entries up to {promise.size} are not those of {promise.where}"
            self._say(promise.size, "checkpoint", message)
            self._broken = True

    # -- all of them ----------------------------------------------------------------------------

    def finish(self, head: TreeHead | None) -> Report:
        """Compare with head and promises; name what can be told only when all was read."""
        size = self._promised_size(0 if head is None else head.size)
        if head is not None:
            self._check_head(head)
        elif self.last:
            self._say(self.last, "head", "the row that holds the log's end is gone")
        if size > self.last:
            self._gaps.append((self.last + 1, size))
        self._name_gaps(max(size, 0 if head is not None else self.last))
        self._name_entries(size)
        for actor in Actor.objects.filter(erased_at__isnull=True).iterator(chunk_size=BATCH):
            self._check_actor(actor)
        if self._other_keys:
            unknown = f"{self._other_keys:,} seals that were made under another audit key"
            self._report.unchecked.append(unknown)
        self._report.problems.sort(key=lambda problem: (problem.sequence, problem.kind))
        return self._report

    def _promised_size(self, size: int) -> int:
        for promise in self._promised[self._next :]:
            if promise.wrong:
                self._say(promise.size, "checkpoint", promise.wrong)
            else:
                size = max(size, promise.size)
        return size

    def _check_head(self, head: TreeHead) -> None:
        if head.size < self.last:
            message = f"the log's end says {head.size} entries; there is an entry {self.last}"
            self._say(head.size, "head", message)
            return
        if not head.size and not head.root:
            return
        root = None if self._frontier is None or self._broken else self._frontier.root().hex()
        try:
            edge = tree.frontier(head).root().hex()
            own = head.key_id == keys.key_id()
            genuine = not own or head.seal == keys.seal_head(head.size, bytes.fromhex(head.root))
        except (ValueError, PortcullisError):
            edge, own, genuine = "", True, False
        self._other_keys += not own
        if not genuine or edge != head.root:
            self._say(head.size, "head", "the row that holds the log's end was changed")
        elif root is not None and head.size == self.last and root != head.root:
            self._say(head.size, "head", "the log's end is not that of its entries")

    def _name_gaps(self, size: int) -> None:
        away = set(self._moved.values())
        for first, last in self._gaps:
            start = first
            for number in sorted(n for n in away if first <= n <= last):
                self._name_gap(start, number - 1)
                start = number + 1
            self._name_gap(start, min(last, size))

    def _name_gap(self, first: int, last: int) -> None:
        if first > last:
            return
        what = f"entry {first} is gone" if first == last else f"entries {first} to {last} are gone"
        self._say(first, "removed", what, last)

    def _name_entries(self, size: int) -> None:
        away = set(self._moved.values())
        for number in self._changed:
            self._say(number, "changed", f"entry {number} was changed")
        for number in self._strange:
            if number > size or number in away:
                self._say(number, "added", f"entry {number} was not written by Portcullis")
            else:
                self._say(number, "changed", f"entry {number} was changed")
        for here, home in self._moved.items():
            if not self._is_sound(home):
                message = f"entry {here} stood at {home} when it was written"
                self._say(here, "reordered", message)
            elif here > size:
                self._say(here, "added", f"entry {here} is a copy of entry {home}")
            else:
                message = f"entry {here} was replaced by a copy of entry {home}"
                self._say(here, "changed", message)

    def _is_sound(self, number: int) -> bool:
        if number > self.last or any(first <= number <= last for first, last in self._gaps):
            return False
        return not any(number in bad for bad in (self._changed, self._strange, self._moved))

    def _check_actor(self, actor: Actor) -> None:
        expected = keys.pseudonym(bytes(actor.salt or b""), actor.name, actor.user_id)
        if actor.pseudonym == expected:
            return
        first = actor.entries.order_by("sequence").values_list("sequence", flat=True).first()
        message = f"who made entry {first} and others was renamed to `{actor.name}`"
        self._say(first or 0, "actor", message)

    def _say(self, sequence: int, kind: Kind, message: str, last: int | None = None) -> None:
        self._report.problems.append(ChainProblem(sequence, kind, message, last or sequence))
