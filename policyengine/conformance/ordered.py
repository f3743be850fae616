"""`ope.match`: subscriptions and events under order-preserving encryption (paper 003)."""

from __future__ import annotations

from typing import Final, cast

from policyengine.attributes import Expression, Schema, Value, check_values, parse, shown
from policyengine.conformance.fields import Fields, random_of, schema_of
from policyengine.errors import InputError
from policyengine.ope import Scheme, ope_match

_SCHEMES: Final = ("sbm1", "sbm2", "plain")


def answer_match(fields: Fields) -> dict[str, object]:
    """Encrypt subscriptions and events, index the ones and match the others."""
    scheme = cast(Scheme, fields.word("scheme", _SCHEMES))
    schema = schema_of(fields)
    asked = fields.mapping("subscriptions")
    subscriptions = {name: _subscription(name, text, schema) for name, text in asked.items()}
    events = [
        _event(number, values, schema) for number, values in enumerate(fields.items("events"))
    ]
    matches = ope_match(scheme, schema, subscriptions, events, random=random_of(fields))
    return {"matches": matches}


def _subscription(name: str, text: object, schema: Schema) -> Expression:
    where = f"subscriptions.{name}"
    if not isinstance(text, str):
        raise InputError("type", f"the field {shown(where)} is no text", where=where)
    return parse(text, schema)


def _event(number: int, values: object, schema: Schema) -> dict[str, Value]:
    where = f"events[{number}]"
    if not isinstance(values, dict):
        raise InputError("type", f"the field `{where}` is no object", where=where)
    return check_values(values, schema)
