"""Splitting asked for in JSON: strict readers of requests, and their answers.

The shapes are those of the engine's conformance command (`split.plan`, `split.roundtrip`,
`split.learns`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, cast

from policyengine.attributes import Value, shown, unknown
from policyengine.errors import InputError
from policyengine.primitives.aead import KEY_SIZE
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource
from policyengine.privacy.attackers import colluding
from policyengine.privacy.parts import KeySealer, new_id, roundtrip, split_publication
from policyengine.privacy.plan import MAX_ATTRIBUTES, SplitPlan, check_attribute, plan_of
from policyengine.privacy.planner import plan_split
from policyengine.privacy.risky import MAX_RISKY, Number
from policyengine.privacy.splitting import MAX_PARTS

_FRAME: Final = ("id", "op", "seed")  # what every request of the command may hold


def plan_json(request: Mapping[str, object], *, time_limit: float = 10.0) -> dict[str, object]:
    """Answer `split.plan`.

    Args:
        request: `attributes`, `risky`, `colluding`, `max_overlays`, and `encrypt_cost` if wanted.
        time_limit: seconds of solving.

    Returns:
        `overlays`, `encrypted` and `optimal`.

    Raises:
        InputError: what is wrong with the request, `where` naming the field.
    """
    needed = ("attributes", "risky", "colluding", "max_overlays")
    _check_fields(request, needed, ("encrypt_cost",))
    risky = _list(request["risky"], "risky", MAX_RISKY)
    costs = request.get("encrypt_cost")
    planned = plan_split(
        _names(request["attributes"], "attributes"),
        [_names(one, "risky") for one in risky],
        colluding=_integer(request["colluding"], "colluding"),
        max_overlays=_integer(request["max_overlays"], "max_overlays"),
        encrypt_cost=None if costs is None else _costs(costs),
        time_limit=time_limit,
    )
    return {
        "overlays": [sorted(group) for group in planned.plan.overlays],
        "encrypted": sorted(planned.plan.encrypted),
        "optimal": planned.optimal,
    }


def roundtrip_json(
    request: Mapping[str, object], *, random: RandomSource = SYSTEM_RANDOM
) -> dict[str, object]:
    """Answer `split.roundtrip`.

    Args:
        request: `plan`, `publication` and `deliver`.
        random: source of keys and nonces.

    Returns:
        `publication`, and `missing` where it is null.

    Raises:
        InputError: what is wrong with the request, `where` naming the field.
    """
    _check_fields(request, ("plan", "publication", "deliver"))
    plan, values = _plan(request["plan"]), _publication(request["publication"])
    outcome = roundtrip(plan, values, _integers(request["deliver"], "deliver"), random=random)
    if outcome.publication is None:
        return {"publication": None, "missing": list(outcome.missing)}
    return {"publication": outcome.publication}


def learns_json(
    request: Mapping[str, object], *, random: RandomSource = SYSTEM_RANDOM
) -> dict[str, object]:
    """Answer `split.learns`.

    Args:
        request: `plan`, `publication` and `colluding`.
        random: source of keys and nonces.

    Returns:
        `known`.

    Raises:
        InputError: what is wrong with the request, `where` naming the field.
    """
    _check_fields(request, ("plan", "publication", "colluding"))
    plan, values = _plan(request["plan"]), _publication(request["publication"])
    sealer = KeySealer(random.token(KEY_SIZE), random)
    parts = split_publication(plan, values, sealer=sealer, publication=new_id(random))
    return {"known": colluding(parts, _integers(request["colluding"], "colluding")).known}


def _check_fields(
    obj: Mapping[str, object], needed: Sequence[str], optional: Sequence[str] = ()
) -> None:
    allowed = (*needed, *optional)
    for name in obj:
        if name not in allowed and name not in _FRAME:
            raise unknown("field", str(name), allowed)
    for name in needed:
        if name not in obj:
            raise InputError("invalid", f"the field {shown(name)} is missing", where=name)


def _plan(obj: object) -> SplitPlan:
    if not isinstance(obj, Mapping):
        raise InputError("invalid", "a plan is an object", where="plan")
    _check_fields(obj, ("overlays",), ("encrypted", "optimal"))  # as `split.plan` answers
    if not isinstance(obj.get("optimal", True), bool):
        raise InputError("invalid", "`optimal` is a truth value", where="optimal")
    overlays = _list(obj["overlays"], "overlays", MAX_PARTS)
    encrypted = _names(obj.get("encrypted", []), "encrypted")
    return plan_of([_names(group, "overlays") for group in overlays], encrypted)


def _publication(obj: object) -> dict[str, Value]:
    if not isinstance(obj, Mapping):
        raise InputError("invalid", "a publication is an object of values", where="publication")
    return dict(cast(Mapping[str, Value], obj))


def _costs(obj: object) -> dict[str, Number]:
    if not isinstance(obj, Mapping):
        raise InputError("invalid", "costs are an object, name to number", where="encrypt_cost")
    for cost in obj.values():
        if isinstance(cost, bool) or not isinstance(cost, int | float):
            raise InputError("invalid", f"{shown(cost)} is no number", where="encrypt_cost")
    return dict(obj)


def _names(obj: object, where: str) -> list[str]:
    names = _list(obj, where, MAX_ATTRIBUTES)
    for name in names:
        if not isinstance(name, str):
            raise InputError("invalid", "an attribute is named by a text", where=where)
        check_attribute(name, where)
    return cast(list[str], names)


def _integers(obj: object, where: str) -> Collection[int]:
    return [_integer(number, where) for number in _list(obj, where)]


def _integer(obj: object, where: str) -> int:
    if type(obj) is not int:
        raise InputError("invalid", f"expected a whole number in {shown(where)}", where=where)
    return obj


def _list(obj: object, where: str, limit: int | None = None) -> list[object]:
    if not isinstance(obj, list):
        raise InputError("invalid", f"expected a list in {shown(where)}", where=where)
    if limit is not None and len(obj) > limit:
        raise InputError("too-large", f"at most {limit} in {shown(where)}", where=where)
    return obj
