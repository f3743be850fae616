"""Whether the rules of a domain fit together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from adminapp.core.errors import Problem
from adminapp.identity.models import Domain
from adminapp.roles import mapping, selectors
from adminapp.roles.models import Role
from policyengine.attributes import unknown
from policyengine.errors import InputError
from policyengine.roles import Rule, in_order, read_atom

WORDS = {"roles": "role", "appointment-rules": "appointment"}


def rules(domain: Domain) -> Iterator[Problem]:
    """Prerequisites that are no roles of the domain, or have other parameters; circles.

    Pointers begin with `/roles/<name>/rules/<number>`; `seen_from` shortens them.
    """
    roles = {each.row.name: each.row for each in selectors.effective_roles(domain)}
    found: list[Rule] = []
    for role in roles.values():
        for number, row in enumerate(role.rules.all()):
            pointer = f"/roles/{role.name}/rules/{number}"
            try:
                rule = mapping.rule(row)
            except InputError as error:
                yield Problem.from_input_error(error, pointer)
                continue
            found.append(rule)
            yield from _prerequisites(rule, roles, pointer)
            if len(rule.role.terms) != len(role.parameters):
                yield Problem(f"{pointer}/role", _count(role, len(rule.role.terms)))
    try:
        in_order(found)
    except InputError as error:
        yield Problem.from_input_error(error, f"/roles/{error.where}/rules")


def _prerequisites(rule: Rule, roles: dict[str, Role], pointer: str) -> Iterator[Problem]:
    needed = [each.atom for each in rule.credentials if each.kind == "role"]
    for index, atom in enumerate(needed):
        place = f"{pointer}/prerequisites/{index}"
        role = roles.get(atom.name)
        if role is None:
            yield Problem.from_input_error(unknown("role", atom.name, roles), place)
        elif len(atom.terms) != len(role.parameters):
            yield Problem(place, _count(role, len(atom.terms)))


def _count(role: Role, found: int) -> str:
    count = len(role.parameters)
    return f"`{role.name}` has {count} parameter{'' if count == 1 else 's'}, and here {found}"


def appointment_rules(domain: Domain) -> Iterator[Problem]:
    """Roles that may appoint and do not exist, or have other parameters."""
    rows = selectors.effective_appointment_rules(domain)
    if not rows:
        return
    roles = {each.row.name: each.row for each in selectors.effective_roles(domain)}
    for each in rows:
        for index, text in enumerate(each.row.by):
            atom, place = read_atom(text), f"/appointment-rules/{each.row.name}/by/{index}"
            role = roles.get(atom.name)
            if role is None:
                yield Problem.from_input_error(unknown("role", atom.name, roles), place)
            elif atom.terms and len(atom.terms) != len(role.parameters):
                yield Problem(place, _count(role, len(atom.terms)))


def seen_from(place: str, problem: Problem) -> Problem:
    """A problem as it is pointed at from an object's own document; others are named in words.

    Args:
        place: the object, such as `/roles/officer`.
    """
    if problem.pointer.startswith(f"{place}/"):
        return replace(problem, pointer=problem.pointer.removeprefix(place))
    _, what, *rest = problem.pointer.split("/", 3) if problem.pointer else ("", "")
    if what not in WORDS or not rest:
        return problem
    message = f"{WORDS[what]} `{rest[0]}`: {problem.message}"
    return replace(problem, pointer="", message=message)
