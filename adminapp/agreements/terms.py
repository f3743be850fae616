"""The terms of an agreement: their shape, their one form, and their digest. No rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from adminapp.core import canonical, names
from adminapp.core.errors import Invalid, Problem
from policyengine.attributes import unknown
from policyengine.primitives.hashing import digest as hash_bytes

ACTIONS = ("publish", "subscribe")
FIELDS = ("roles", "opens", "subject_attributes", "starts", "ends", "purpose")
MOST = 200
"""Most entries of a list, so that a hostile proposal stays small."""


@dataclass(frozen=True, order=True)
class RoleMapping:
    """A role of the consumer, and the provider's role by which its policies know it."""

    role: str
    known_as: str

    def to_json(self) -> dict[str, str]:
        return {"role": self.role, "as": self.known_as}


@dataclass(frozen=True)
class Ceiling:
    """The most that is opened of one sub-tree of event types.

    Args:
        type: name of the event type; its sub-types are included.
        action: publish or subscribe.
        attributes: names, or None for all.
    """

    type: str
    action: str
    attributes: tuple[str, ...] | None

    def to_json(self) -> dict[str, Any]:
        listed = None if self.attributes is None else list(self.attributes)
        return {"type": self.type, "action": self.action, "attributes": listed}


@dataclass(frozen=True)
class Terms:
    """What a round proposes, in its one form."""

    roles: tuple[RoleMapping, ...]
    opens: tuple[Ceiling, ...]
    subject_attributes: tuple[str, ...]
    starts: datetime
    ends: datetime
    purpose: str

    def to_json(self) -> dict[str, Any]:
        return {
            "roles": [each.to_json() for each in self.roles],
            "opens": [each.to_json() for each in self.opens],
            "subject_attributes": list(self.subject_attributes),
            "starts": moment(self.starts),
            "ends": moment(self.ends),
            "purpose": self.purpose,
        }

    def digest(self, *, provider: str, consumer: str, name: str) -> str:
        """What a side accepts: these terms, of this agreement, between these two."""
        bound = {"provider": provider, "consumer": consumer, "name": name, "terms": self.to_json()}
        return hash_bytes(canonical.dumps(bound).encode())


def moment(value: datetime) -> str:
    """ISO 8601 in UTC, with `Z`."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def read(data: Any, *, now: datetime, pointer: str = "/terms") -> Terms:
    """Read terms that somebody sent.

    Args:
        data: an object with the fields of `FIELDS`; `starts` may be left out and is `now` then.
        pointer: where the terms stand in what was sent.

    Raises:
        Invalid: with a place for each fault.
    """
    reader = _Reader()
    found = reader.terms(data, now)
    if reader.problems:
        raise Invalid(reader.problems).below(pointer)
    return found


class _Reader:
    """Collects every fault instead of stopping at the first."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def terms(self, data: Any, now: datetime) -> Terms:
        if not isinstance(data, Mapping):
            self._wrong("", "terms are an object")
            data = {}
        for name in sorted(set(map(str, data)) - set(FIELDS)):
            self._unknown("field of terms", name, FIELDS, f"/{name}")
        starts = self._moment(data.get("starts") or now, "/starts")
        ends = self._moment(data.get("ends"), "/ends")
        if ends <= starts and not self.problems:
            self._wrong("/ends", "the end must come after the beginning")
        purpose = data.get("purpose", "")
        if not isinstance(purpose, str) or len(purpose) > 2000:
            self._wrong("/purpose", "the purpose is a text of at most 2000 characters")
            purpose = ""
        return Terms(
            roles=self._roles(data.get("roles")),
            opens=self._opens(data.get("opens")),
            subject_attributes=self._names(
                data.get("subject_attributes", []), "/subject_attributes"
            ),
            starts=starts,
            ends=ends,
            purpose=purpose,
        )

    def _roles(self, data: Any) -> tuple[RoleMapping, ...]:
        found: list[RoleMapping] = []
        for place, each in self._objects(data, "/roles", ("role", "as"), ("role", "as")):
            role = self._name(each["role"], f"{place}/role")
            known_as = self._name(each["as"], f"{place}/as")
            found.append(RoleMapping(role, known_as))
        if len(set(found)) != len(found):
            self._wrong("/roles", "a mapping of roles is listed twice")
        return tuple(sorted(set(found)))

    def _opens(self, data: Any) -> tuple[Ceiling, ...]:
        fields, needed = ("type", "action", "attributes"), ("type", "action")
        found: list[Ceiling] = []
        for place, each in self._objects(data, "/opens", fields, needed):
            action = each["action"]
            if action not in ACTIONS:
                self._unknown("action", str(action)[:100], ACTIONS, f"{place}/action")
            listed = each.get("attributes")
            names_ = None if listed is None else self._names(listed, f"{place}/attributes")
            found.append(Ceiling(self._name(each["type"], f"{place}/type"), str(action), names_))
        if len(set(found)) != len(found):
            self._wrong("/opens", "something is opened twice in the same words")
        return tuple(sorted(set(found), key=_ceiling_order))

    def _objects(
        self, data: Any, place: str, fields: tuple[str, ...], needed: tuple[str, ...]
    ) -> Iterable[tuple[str, Mapping[str, Any]]]:
        if not isinstance(data, list) or not data or len(data) > MOST:
            self._wrong(place, f"this is a list of 1 to {MOST} objects")
            return
        for index, each in enumerate(data):
            here = f"{place}/{index}"
            if not isinstance(each, Mapping) or not set(needed) <= set(each):
                self._wrong(here, f"this is an object with {' and '.join(needed)}")
                continue
            for name in sorted(set(map(str, each)) - set(fields)):
                self._unknown("field", name, fields, f"{here}/{name}")
            yield here, each

    def _names(self, data: Any, place: str) -> tuple[str, ...]:
        if not isinstance(data, list) or len(data) > MOST:
            self._wrong(place, f"this is a list of at most {MOST} names")
            return ()
        found = [self._name(each, f"{place}/{index}") for index, each in enumerate(data)]
        if len(set(found)) != len(found):
            self._wrong(place, "a name is listed twice")
        return tuple(sorted(set(found)))

    def _name(self, data: Any, place: str) -> str:
        if not isinstance(data, str) or not names.identifier.regex.match(data):
            self._wrong(place, str(names.identifier.message))
            return ""
        return data

    def _moment(self, data: Any, place: str) -> datetime:
        found = data if isinstance(data, datetime) else _parsed(data)
        if found is None or found.tzinfo is None:
            self._wrong(place, "this is a moment with its zone, such as 2030-01-31T12:00:00Z")
            return datetime.max.replace(tzinfo=UTC)
        try:
            return found.astimezone(UTC)
        except OverflowError:
            self._wrong(place, "this moment is out of reach")
            return datetime.max.replace(tzinfo=UTC)

    def _wrong(self, place: str, message: str) -> None:
        self.problems.append(Problem(place, message))

    def _unknown(self, what: str, name: str, known: Iterable[str], place: str) -> None:
        self.problems.append(Problem.from_input_error(unknown(what, name, known), place))


def _parsed(data: Any) -> datetime | None:
    try:
        return parse_datetime(data) if isinstance(data, str) else None
    except ValueError:
        return None


def _ceiling_order(ceiling: Ceiling) -> tuple[str, str, tuple[str, ...]]:
    return ceiling.type, ceiling.action, ceiling.attributes or ()


def from_json(data: Mapping[str, Any]) -> Terms:
    """Terms as a round keeps them; they were read once."""
    return read(data, now=datetime.now(UTC))
