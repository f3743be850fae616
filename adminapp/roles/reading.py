"""Parameters and rules as people write them, read into the engine's values."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from adminapp.core import names
from adminapp.core.errors import Invalid, Problem
from policyengine.attributes import AttributeType, Value, unknown
from policyengine.errors import InputError
from policyengine.roles import MAX_PARAMETERS, Atom, Credential, Rule, ground_atom, read_atom
from policyengine.roles import free_parameters as engine_free_parameters
from policyengine.roles import read_rule as engine_rule
from policyengine.roles.crowds import Terms
from policyengine.roles.terms import term_text

RULE_FIELDS = ("role", "prerequisites", "appointments", "constraints", "membership")
_TEXT = {"type": "string"}
_PLACE = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True)
class Parameter:
    """A parameter of a role or an appointment."""

    name: str
    type: AttributeType

    def value(self, constant: str | int | float) -> Value | None:
        """What policies see of a value; None when the type does not admit it."""
        if self.type.kind == "string":
            return constant if isinstance(constant, str) else term_text(constant)
        if self.type.kind == "bool":
            return {"true": True, "false": False}.get(str(constant))
        try:
            return self.type.check(constant, self.name)
        except InputError:
            return None

    def to_json(self) -> Any:
        """The one form that documents have: the bare name of a text, else an object."""
        declared = self.type.to_json()
        return self.name if declared == _TEXT else {"name": self.name, "type": declared}


def read_parameters(listed: Any) -> tuple[Parameter, ...]:
    """Read a list of parameters: names, or objects with name and type.

    Raises:
        Invalid: with pointers below `/parameters`.
    """
    if not isinstance(listed, list | tuple):
        raise Invalid.at("/parameters", "this is a list of names", "type")
    if len(listed) > MAX_PARAMETERS:
        raise Invalid.at("/parameters", f"there are at most {MAX_PARAMETERS} parameters")
    found: list[Parameter] = []
    for index, each in enumerate(listed):
        parameter = _parameter(each, f"/parameters/{index}")
        if parameter.name in {other.name for other in found}:
            raise Invalid.at(f"/parameters/{index}", f"`{parameter.name}` is listed twice")
        found.append(parameter)
    return tuple(found)


def _parameter(each: Any, pointer: str) -> Parameter:
    if isinstance(each, str):
        each = {"name": each}
    if not isinstance(each, Mapping) or not isinstance(each.get("name"), str):
        raise Invalid.at(pointer, "this is a name, or an object with a name and a type", "type")
    unknown = sorted(set(each) - {"name", "type"})
    if unknown:
        raise Invalid.at(f"{pointer}/{unknown[0]}", f"`{unknown[0]}` cannot be set", "unknown")
    if not names.identifier.regex.match(each["name"]):
        raise Invalid.at(pointer, str(names.identifier.message))
    try:
        return Parameter(each["name"], AttributeType.from_json(each.get("type", _TEXT)))
    except InputError as error:
        raise Invalid([Problem.from_input_error(error, f"{pointer}/type")]) from error


def read_rule(document: Any, role: str, count: int) -> dict[str, list[str]]:
    """Read one rule of a role into the fields of its row, texts in their one form.

    Args:
        document: lists of texts; `role` may be left out where the role has no parameters, and
            `membership` where every condition must keep holding. One constraint may stand alone.
        role: name of the role.
        count: how many parameters it has.

    Raises:
        Invalid: with pointers into the document, and positions in its texts.
    """
    lists = _lists(document)
    head = document.get("role") or role
    try:
        rule = engine_rule(
            head, **{name: lists[name] for name in ("prerequisites", "appointments", "constraints")}
        )
    except InputError as error:
        raise Invalid([Problem.from_input_error(error, _pointer(error))]) from error
    _check_head(rule, role, count)
    _check_names(rule)
    fields = {
        "arguments": [term_text(term) for term in rule.role.terms],
        "prerequisites": [e.atom.text for e in rule.credentials if e.kind == "role"],
        "appointments": [e.atom.text for e in rule.credentials if e.kind == "appointment"],
        "constraints": [each.text for each in rule.constraints],
    }
    return {**fields, "membership": _membership(document.get("membership"), fields)}


def _lists(document: Any) -> dict[str, list[str]]:
    if not isinstance(document, Mapping):
        raise Invalid.at("", "a rule is an object", "type")
    unknown = sorted(set(document) - set(RULE_FIELDS))
    if unknown:
        raise Invalid(Problem(f"/{name}", f"`{name}` cannot be set", "unknown") for name in unknown)
    if not isinstance(document.get("role", ""), str | None):
        raise Invalid.at("/role", "this is text such as `officer(x)`", "type")
    found: dict[str, list[str]] = {}
    for name in ("prerequisites", "appointments", "constraints", "membership"):
        listed = document.get(name) or []
        if name == "constraints" and isinstance(listed, str):
            listed = [listed] if listed.strip() else []
        if not isinstance(listed, list | tuple) or not all(isinstance(e, str) for e in listed):
            raise Invalid.at(f"/{name}", "this is a list of texts", "type")
        found[name] = list(listed)
    return found


def _pointer(error: InputError) -> str:
    """`prerequisites[0]` as `/prerequisites/0`."""
    field = (error.where or "").partition("[")[0]
    if field not in RULE_FIELDS:
        return ""
    place = _PLACE.search(error.where or "")
    return f"/{field}/{place[1]}" if place else f"/{field}"


def _check_head(rule: Rule, role: str, count: int) -> None:
    if rule.role.name != role:
        message = f"this rule is of the role `{role}`, and `{rule.role.name}` is another"
        raise Invalid([Problem("/role", message, suggestion=role)])
    if len(rule.role.terms) != count:
        plural = "" if count == 1 else "s"
        message = f"`{role}` has {count} parameter{plural}, and here {len(rule.role.terms)}"
        raise Invalid.at("/role", message)
    free = engine_free_parameters(rule)
    if free:
        listed = " and ".join(f"`{name}`" for name in free)
        raise Invalid.at(
            "/role",
            f"whoever activates `{role}` would choose {listed}: no prerequisite and no appointment"
            " names it",
            "unbound",
        )


def _check_names(rule: Rule) -> None:
    counts = {"role": 0, "appointment": 0}
    for each in rule.credentials:
        place = counts[each.kind]
        counts[each.kind] += 1
        if not names.identifier.regex.match(each.atom.name):
            field = "prerequisites" if each.kind == "role" else "appointments"
            raise Invalid.at(f"/{field}/{place}", str(names.identifier.message))


def _membership(wanted: Any, fields: Mapping[str, list[str]]) -> list[str]:
    conditions = [*fields["prerequisites"], *fields["appointments"], *fields["constraints"]]
    if wanted is None:
        return list(dict.fromkeys(conditions))
    found: list[str] = []
    for index, text in enumerate(wanted):
        written = text.strip() if text.strip() in conditions else _atom_text(text)
        if written not in conditions:
            message = f"`{text[:100]}` is none of the rule's conditions"
            raise Invalid.at(f"/membership/{index}", message, "unknown")
        found.append(written)
    return list(dict.fromkeys(found))


def _atom_text(text: str) -> str:
    try:
        return read_atom(text, "condition").text
    except InputError:
        return text


@lru_cache(maxsize=65_536)
def rule(name: str, arguments: tuple[str, ...], *lists: tuple[str, ...]) -> Rule:
    """The engine's rule for what a row holds.

    Args:
        lists: prerequisites, appointments, constraints, membership.
    """
    fields = dict(zip(RULE_FIELDS[1:], lists, strict=True))
    return engine_rule(head(name, arguments), **fields)


@lru_cache(maxsize=65_536)
def rule_of_texts(name: str, arguments: str, *lists: str) -> Rule:
    """`rule`, from lists that are JSON still."""
    return rule(name, tuple(json.loads(arguments)), *(tuple(json.loads(each)) for each in lists))


def head(name: str, arguments: Iterable[str]) -> str:
    """`officer(x)` from its parts."""
    listed = ", ".join(arguments)
    return f"{name}({listed})" if listed else name


def written(name: str, terms: Iterable[Any]) -> str:
    """A ground role or appointment as text: `badge(7, West)`."""
    return Atom(name, tuple(terms)).text


def read_terms(listed: Any, name: str, pointer: str = "/parameters") -> Terms:
    """Values of the parameters of an appointment or an active role.

    Raises:
        Invalid: one is neither text nor a number.
    """
    if not isinstance(listed, list | tuple):
        raise Invalid.at(pointer, "this is a list of values", "type")
    if len(listed) > MAX_PARAMETERS:
        raise Invalid.at(pointer, f"there are at most {MAX_PARAMETERS} parameters")
    found = [_term(each, f"{pointer}/{index}") for index, each in enumerate(listed)]
    try:
        return tuple(ground_atom(written(name, found)).terms)  # type: ignore[arg-type]
    except InputError as error:
        raise Invalid([Problem.from_input_error(error, pointer)]) from error


def _term(value: Any, pointer: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Invalid.at(pointer, "this is text or a number", "type")
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def credentials(rule: Rule, kind: str) -> Sequence[Credential]:
    """The prerequisites (`role`) or appointments (`appointment`) of a rule."""
    return [each for each in rule.credentials if each.kind == kind]


def read_appointers(listed: Any, parameters: Collection[str]) -> list[str]:
    """Read the roles that may appoint, into their one form.

    Args:
        listed: `chief`, or `chief(station)` with parameters of the appointment.
        parameters: names of the appointment's parameters.

    Raises:
        Invalid: with pointers below `/by`.
    """
    if not isinstance(listed, list | tuple) or not all(isinstance(each, str) for each in listed):
        raise Invalid.at("/by", "this is a list of roles", "type")
    found: list[str] = []
    for index, text in enumerate(listed):
        pointer = f"/by/{index}"
        try:
            atom = read_atom(text)
        except InputError as error:
            raise Invalid([Problem.from_input_error(error, pointer)]) from error
        for name in references(atom):
            if name not in parameters:
                error = unknown("parameter of the appointment", name, parameters)
                raise Invalid([Problem.from_input_error(error, pointer)])
        found.append(atom.text)
    return list(dict.fromkeys(found))


def references(atom: Atom) -> tuple[str, ...]:
    """The parameters that the terms of an appointing role name."""
    return tuple(term_text(term) for term in atom.terms)
