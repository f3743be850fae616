"""A set of activation and authorisation rules: immutable, shared by any number of sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from policyengine.errors import InputError
from policyengine.roles.reading import Members, placed, read_rule
from policyengine.roles.rules import Credential, Rule
from policyengine.roles.terms import Signature, read_atom

MAX_RULES: Final = 4096
"""How many activation rules, and how many authorisation rules, a policy may have."""
MAX_TOTAL: Final = 16_384
"""How many conditions the rules of a policy may have together."""

_FIELDS: Final = ("role", "prerequisites", "appointments", "constraints", "membership")


@dataclass(frozen=True)
class RolePolicy:
    """The rules of a domain.

    Args:
        rules: activation rules; rules of one role are alternatives, tried in order.
        privileges: authorisation rules `r, e1..el |- p` (paper 002, section 3.2), the
            privilege standing where a rule has its role. Any one of them suffices.
    """

    rules: tuple[Rule, ...] = ()
    privileges: tuple[Rule, ...] = ()

    def rules_for(self, signature: Signature) -> tuple[tuple[int, Rule], ...]:
        """Return the rules of a role with their numbers, counted from 1."""
        return self._by_role.get(signature, ())

    def privileges_for(self, signature: Signature) -> tuple[tuple[int, Rule], ...]:
        """Return the rules of a privilege with their numbers, counted from 1."""
        return self._by_privilege.get(signature, ())

    @property
    def roles(self) -> frozenset[Signature]:
        """The roles that some rule activates."""
        return frozenset(self._by_role)

    @classmethod
    def from_json(cls, obj: object) -> RolePolicy:
        """Read a policy.

        Args:
            obj: `{"rules": [{"role": "officer(x)", "prerequisites": [...],
                "appointments": [...], "constraints": [...], "membership": [...]}]}`;
                lists may be left out. Beside them `"privileges": [{"privilege":
                "publish(BurglaryEvent)", "role": "officer(x)", "constraints": [...]}]`.

        Raises:
            InputError: what is wrong, `where` naming the field and `at` the position
                in its text.
        """
        body = Members(obj, "policy", ("rules", "privileges"))
        rules, privileges = body.list("rules"), body.list("privileges")
        _check_size(rules, privileges)
        parts = [Members(each, f"rules[{place}]", _FIELDS) for place, each in enumerate(rules)]
        roles = frozenset(_signature(part) for part in parts)
        return cls(
            tuple(_rule(part, roles) for part in parts),
            tuple(_privilege(each, f"privileges[{at}]") for at, each in enumerate(privileges)),
        )

    def to_json(self) -> dict[str, object]:
        """Write the policy so that `from_json` reads it back."""
        out: dict[str, object] = {"rules": [_rule_json(rule) for rule in self.rules]}
        if self.privileges:
            out["privileges"] = [_privilege_json(rule) for rule in self.privileges]
        return out

    @cached_property
    def _by_role(self) -> Mapping[Signature, tuple[tuple[int, Rule], ...]]:
        return _indexed(self.rules)

    @cached_property
    def _by_privilege(self) -> Mapping[Signature, tuple[tuple[int, Rule], ...]]:
        return _indexed(self.privileges)


def _check_size(rules: Sequence[object], privileges: Sequence[object]) -> None:
    # Before anything is read: reading is the expensive part.
    if len(rules) > MAX_RULES or len(privileges) > MAX_RULES:
        raise InputError("too-large", f"there are over {MAX_RULES} rules", where="policy")
    lists = (
        value
        for rule in (*rules, *privileges)
        if isinstance(rule, Mapping)
        for value in rule.values()
        if isinstance(value, list | tuple)
    )
    if sum(len(each) for each in lists) > MAX_TOTAL:
        message = f"the rules have over {MAX_TOTAL} conditions together"
        raise InputError("too-large", message, where="policy")


def _indexed(rules: tuple[Rule, ...]) -> dict[Signature, tuple[tuple[int, Rule], ...]]:
    index: dict[Signature, list[tuple[int, Rule]]] = {}
    for number, rule in enumerate(rules, start=1):
        index.setdefault(rule.role.signature, []).append((number, rule))
    return {signature: tuple(found) for signature, found in index.items()}


def _signature(part: Members) -> Signature:
    text = part.text("role")
    try:
        return read_atom(text).signature
    except InputError as error:
        raise placed(error, f"{part.place}.role") from None


def _rule(part: Members, roles: frozenset[Signature]) -> Rule:
    role = part.text("role")
    lists = {name: part.texts(name) for name in _FIELDS[1:]}
    try:
        return read_rule(role, roles=roles, **lists)
    except InputError as error:
        raise placed(error, part.place) from None


def _privilege(body: object, place: str) -> Rule:
    part = Members(body, place, ("privilege", "role", "constraints"))
    name, role, constraints = part.text("privilege"), part.text("role"), part.texts("constraints")
    try:
        return read_rule(name, prerequisites=(role,), constraints=constraints)
    except InputError as error:
        field = {"role": "privilege", "prerequisites[0]": "role"}.get(error.where or "")
        raise placed(error, f"{place}.{field}" if field else place, inner=not field) from None


def _rule_json(rule: Rule) -> dict[str, object]:
    return {
        "role": rule.role.text,
        "prerequisites": [each.atom.text for each in rule.credentials if each.kind == "role"],
        "appointments": [each.atom.text for each in rule.credentials if each.kind == "appointment"],
        "constraints": [each.text for each in rule.constraints],
        "membership": list(
            dict.fromkeys(
                each.atom.text if isinstance(each, Credential) else each.text
                for each in rule.membership
            )
        ),
    }


def _privilege_json(rule: Rule) -> dict[str, object]:
    return {
        "privilege": rule.role.text,
        "role": rule.credentials[0].atom.text,
        "constraints": [each.text for each in rule.constraints],
    }
