"""Activations as JSON, so that a session can be put down and taken up again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from policyengine.errors import InputError
from policyengine.roles.constraints import read_constraint
from policyengine.roles.outcomes import Activation
from policyengine.roles.reading import Members
from policyengine.roles.rules import Bound, Credential, CredentialKind, Ground
from policyengine.roles.terms import Constant, ground_atom


def activation_to_json(activation: Activation) -> dict[str, object]:
    """Write an activation so that `activation_from_json` reads it back."""
    return {
        "role": activation.role.text,
        "rule": activation.rule,
        "bindings": dict(activation.bindings),
        "conditions": [_written(each) for each in activation.conditions],
        "membership": [_written(each) for each in activation.membership],
        "since": activation.since,
    }


def activation_from_json(obj: object) -> Activation:
    """Read an activation.

    Raises:
        InputError: it is none; `where` names the field.
    """
    body = Members(
        obj, "activation", ("role", "rule", "bindings", "conditions", "membership", "since")
    )
    bindings = cast("Mapping[str, Constant]", body.object("bindings"))
    return Activation(
        ground_atom(body.text("role")),
        _whole(body, "rule"),
        tuple(sorted(bindings.items())),
        tuple(_ground(each, "conditions") for each in body.list("conditions")),
        tuple(_ground(each, "membership") for each in body.list("membership")),
        _whole(body, "since"),
    )


def _whole(body: Members, name: str) -> int:
    found = body.whole(name)
    if found is None:
        raise InputError("invalid", f"`{name}` is missing", where=name)
    return found


def _written(ground: Ground) -> dict[str, object]:
    if isinstance(ground, Credential):
        return {"kind": ground.kind, "text": ground.atom.text}
    bindings: dict[str, object] = dict(ground.bindings)
    return {"kind": "constraint", "text": ground.constraint.text, "bindings": bindings}


def _ground(obj: object, place: str) -> Ground:
    body = Members(obj, place, ("kind", "text", "bindings"))
    kind, text = body.text("kind"), body.text("text")
    if kind == "constraint":
        bindings = cast("Mapping[str, Constant]", body.object("bindings"))
        return Bound(read_constraint(text, frozenset(bindings)), tuple(sorted(bindings.items())))
    if kind not in ("role", "appointment"):
        raise InputError("invalid", f"`{kind}` is no kind of condition", where=f"{place}.kind")
    return Credential(cast(CredentialKind, kind), ground_atom(text, kind))
