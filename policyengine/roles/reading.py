"""Rules from texts: the one place where a person's rules become values.

What is wrong is said with its place: `where` names the field (`rules[2].constraints[0]`),
`at` the position in its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from policyengine.attributes import nearest, shown
from policyengine.errors import InputError
from policyengine.roles.constraints import PREFIX, Constraint, read_constraint
from policyengine.roles.rules import (
    MAX_CONDITIONS,
    Condition,
    Credential,
    CredentialKind,
    Rule,
)
from policyengine.roles.terms import Atom, Signature, read_atom

_Read = TypeVar("_Read")

_CALL: Final = re.compile(r"\s*(?:(?:has|atLeast)\s*\(|(?:true|false)\s*$)")


def read_rule(
    role: str,
    *,
    prerequisites: Sequence[str] = (),
    appointments: Sequence[str] = (),
    constraints: Sequence[str] = (),
    membership: Sequence[str] = (),
    roles: Collection[Signature] = (),
) -> Rule:
    """Read one activation rule.

    Args:
        role: the role that it activates: `officer(x)`.
        prerequisites: roles that must be active.
        appointments: appointments that must be held.
        constraints: conditions on the environment.
        membership: the conditions that are watched while the role is active. One
            that is none of the others is asked for at activation as well: nothing
            may be active whose membership conditions are false.
        roles: tells roles from appointments among such further conditions.

    Raises:
        InputError: what is wrong with a text, with the place.
    """
    lists = {
        "prerequisites": prerequisites,
        "appointments": appointments,
        "constraints": constraints,
        "membership": membership,
    }
    for field, texts in lists.items():
        if len(texts) > MAX_CONDITIONS:
            message = f"the rule has over {MAX_CONDITIONS} {field}"
            raise InputError("too-large", message, where=field)
    head = _read("role", partial(read_atom, role))
    credentials = [
        *_credentials("prerequisites", "role", prerequisites),
        *_credentials("appointments", "appointment", appointments),
    ]
    watched = [
        _watched(f"membership[{place}]", text, credentials, constraints, roles)
        for place, text in enumerate(membership)
    ]
    further = [each for found in watched if isinstance(found, list) for each in found]
    credentials.extend(dict.fromkeys(each for each in further if each not in credentials))
    known = _variables(head, credentials)
    environmental = [
        _constraint(f"constraints[{place}]", text, known) for place, text in enumerate(constraints)
    ]
    tagged: list[Condition] = []
    for place, found in enumerate(watched):
        if isinstance(found, list):
            tagged.extend(found)
        else:
            tagged.append(_constraint(f"membership[{place}]", found, known))
    environmental.extend(
        dict.fromkeys(
            each for each in tagged if isinstance(each, Constraint) and each not in environmental
        )
    )
    return Rule(head, (*credentials, *environmental), tuple(dict.fromkeys(tagged)))


def placed(error: InputError, place: str, *, inner: bool = True) -> InputError:
    """Put the place of an object in front of what an error says about a part of it.

    Args:
        error: what was found.
        place: where the object stands.
        inner: whether the error's own `where` names a part of that object.
    """
    where = f"{place}.{error.where}" if inner and error.where else place
    return InputError(
        error.kind, error.message, at=error.at, where=where, suggestion=error.suggestion
    )


class Members:
    """The members of one JSON object, taken out by type.

    Args:
        body: the object.
        place: where it stands, for messages.
        known: members that it may have.

    Raises:
        InputError: `type` for anything but an object, `invalid` for another member.
    """

    def __init__(self, body: object, place: str, known: Sequence[str]) -> None:
        if not isinstance(body, Mapping):
            raise InputError("type", f"{shown(place)} is no object", where=place)
        for name in body:
            if name not in known:
                raise InputError(
                    "invalid",
                    f"{shown(name)} is no member of {shown(place)}",
                    where=f"{place}.{str(name)[:200]}",
                    suggestion=nearest(str(name), known),
                )
        self.place = place
        self._body = body

    def has(self, name: str) -> bool:
        """Tell whether a member is there and not null."""
        return self._body.get(name) is not None

    def text(self, name: str) -> str:
        """Return a text that must be there.

        Raises:
            InputError: `invalid` when it is missing, `type` when it is no text.
        """
        if name not in self._body:
            raise InputError("invalid", f"{shown(self._at(name))} is missing", where=self._at(name))
        return _text(self._body[name], self._at(name))

    def whole(self, name: str) -> int | None:
        """Return a whole number, or None where it is not there.

        Raises:
            InputError: `type` for anything else.
        """
        value = self._body.get(name)
        if isinstance(value, bool) or not isinstance(value, int | None):
            raise InputError(
                "type", f"{shown(self._at(name))} is no whole number", where=self._at(name)
            )
        return value

    def list(self, name: str) -> Sequence[object]:
        """Return a list; one that is not there is empty.

        Raises:
            InputError: `type` for anything else.
        """
        value = self._body.get(name)
        if value is None:
            return ()
        if not isinstance(value, list | tuple):
            raise InputError("type", f"{shown(self._at(name))} is no list", where=self._at(name))
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; one that is not there is empty.

        Raises:
            InputError: `type` for anything else.
        """
        return tuple(
            _text(each, f"{self._at(name)}[{place}]") for place, each in enumerate(self.list(name))
        )

    def object(self, name: str) -> dict[str, object]:
        """Return an object that must be there.

        Raises:
            InputError: `type` for anything else.
        """
        value = self._body.get(name)
        if not isinstance(value, Mapping):
            raise InputError("type", f"{shown(self._at(name))} is no object", where=self._at(name))
        return {_text(key, self._at(name)): item for key, item in value.items()}

    def _at(self, name: str) -> str:
        return f"{self.place}.{name}"


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise InputError("type", f"{shown(place)} is no text", where=place)
    return value


def _read(place: str, reader: Callable[[], _Read]) -> _Read:
    try:
        return reader()
    except InputError as error:
        raise placed(error, place, inner=False) from None


def _credentials(field: str, kind: CredentialKind, texts: Sequence[str]) -> list[Credential]:
    found = []
    for place, text in enumerate(texts):
        atom = _read(f"{field}[{place}]", partial(read_atom, text, kind))
        found.append(Credential(kind, atom))
    return found


def _constraint(place: str, text: str, variables: frozenset[str]) -> Constraint:
    return _read(place, partial(read_constraint, text.strip(), variables))


def _variables(head: Atom, credentials: Sequence[Credential]) -> frozenset[str]:
    atoms = (head, *(each.atom for each in credentials))
    return frozenset(name for atom in atoms for name in atom.variables)


def _watched(
    place: str,
    text: str,
    credentials: Sequence[Credential],
    constraints: Sequence[str],
    roles: Collection[Signature],
) -> list[Credential] | str:
    """Return the credentials that a membership condition names, or the text of a constraint."""
    if text.strip() in (each.strip() for each in constraints):
        return text
    try:
        atom = read_atom(text, "condition")
    except InputError as error:
        if PREFIX in text or error.kind != "unsupported":
            return text
        raise placed(error, place, inner=False) from None  # a negated role, not a constraint
    named = [each for each in credentials if each.atom == atom]
    if named:
        return named
    if _CALL.match(text):
        return text
    return [Credential("role" if atom.signature in roles else "appointment", atom)]
