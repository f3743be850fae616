"""What changed between two contents of one audience, and how to carry the change out.

A delta is a row of steps over the entries (`entries`) of the content before: copy a run of
them, then put new ones. It names the digests of both contents and has one form only: the one
that `difference` makes. So a delta either turns exactly the content that it was made from into
exactly the content that it was made for, or it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, NoReturn

from policyengine.bundles.entries import (
    DIGEST_SIZE,
    MAX_ENTRIES,
    Content,
    Entries,
    Entry,
    outline_digest,
    put_together,
    take_apart,
)
from policyengine.errors import DecodeError, RejectedError
from policyengine.primitives.records import (
    DIGEST,
    Codec,
    Document,
    Integer,
    ListOf,
    Nested,
    Record,
    invalid,
)

MAX_STEPS: Final = 2**18
_COUNT: Final = Integer(0, MAX_ENTRIES)
_INSIDE: Final = Document()


class _Entry(Codec):
    """One entry, written as an object of one member."""

    def clean(self, value: Any, where: str) -> dict[str, Any]:
        """Accept mappings of one member."""
        if not isinstance(value, Mapping) or len(value) != 1:
            raise invalid(where, "must have entries of one member")
        return _INSIDE.clean(value, where)


@dataclass(frozen=True)
class Step(Record):
    """Copy a run of entries of the content before, then put new ones.

    Args:
        start: index of the first entry that is copied.
        count: how many are copied; 0 for none, in the first step alone.
        put: new entries, each `{path: value}`.
    """

    start: Annotated[int, _COUNT]
    count: Annotated[int, _COUNT]
    put: Annotated[tuple[Mapping[str, Any], ...], ListOf(_Entry(), MAX_ENTRIES)] = ()


@dataclass(frozen=True)
class Delta(Record):
    """A difference between two contents.

    Args:
        before: digest of the content that it starts from, 64 hexadecimal digits.
        after: digest of the content that it ends in.
        steps: they make the content after, in order.
    """

    before: Annotated[str, DIGEST]
    after: Annotated[str, DIGEST]
    steps: Annotated[tuple[Step, ...], ListOf(Nested(Step), MAX_STEPS)]

    def _agree(self) -> None:
        if sum(step.count + len(step.put) for step in self.steps) > MAX_ENTRIES:
            raise invalid("steps", f"must make at most {MAX_ENTRIES} entries")


def difference(before: Content, after: Content) -> Delta:
    """Return what turns one content into another of the same audience.

    Args:
        before: the content that is held.
        after: the content that is to be held.
    """
    return difference_from(take_apart(before).outline, take_apart(after))


def difference_from(outline: bytes, after: Entries) -> Delta:
    """Return what turns the content with an outline into another of the same audience.

    Args:
        outline: of the content that is held.
        after: the content that is to be held, taken apart.

    Raises:
        InputError: `invalid` when the contents differ in more places than a delta has steps.
    """
    held = _split(outline)
    places = {digest: index for index, digest in reversed([*enumerate(held)])}
    runs: list[tuple[int, int, list[Mapping[str, Any]]]] = []
    start, count, put = 0, 0, list[Mapping[str, Any]]()
    for digest, (path, value) in zip(after.digests, after.listed, strict=True):
        follows = start + count
        if not put and follows < len(held) and held[follows] == digest:
            count += 1
            continue
        place = places.get(digest)
        if place is None:
            put.append({path: value})
            continue
        if count or put:
            runs.append((start, count, put))
        start, count, put = place, 1, []
    runs.append((start, count, put))
    return Delta(
        before=outline_digest(outline),
        after=after.digest,
        steps=tuple(Step(start, count, tuple(put)) for start, count, put in runs),
    )


def apply(before: Content, delta: Delta) -> Content:
    """Carry a delta out.

    Args:
        before: the content in force, with keys as the authority sealed them.
        delta: what changes.

    Returns:
        The content after.

    Raises:
        RejectedError: `previous` when it starts from another content; `malformed` when it does
            not end in the content that it names, or is not in its one form.
    """
    held = take_apart(before)
    if held.digest != delta.before:
        raise RejectedError("previous", "the delta starts from another content")
    try:
        content = put_together(type(before), _carried_out(held.listed, delta))
        after = take_apart(content)
    except DecodeError as error:
        raise RejectedError("malformed", f"the delta makes no content: {error}") from error
    if after.digest != delta.after:
        _malformed("the delta ends in another content")
    if difference_from(held.outline, after) != delta:
        _malformed("the delta has another form")
    return content


def _carried_out(held: tuple[Entry, ...], delta: Delta) -> list[Entry]:
    entries: list[Entry] = []
    for step in delta.steps:
        if step.start + step.count > len(held):
            _malformed("the delta copies what is not there")
        entries.extend(held[step.start : step.start + step.count])
        entries.extend(next(iter(entry.items())) for entry in step.put)
    return entries


def _split(outline: bytes) -> list[bytes]:
    return [outline[at : at + DIGEST_SIZE] for at in range(0, len(outline), DIGEST_SIZE)]


def _malformed(message: str) -> NoReturn:
    raise RejectedError("malformed", message)
