"""`events.covers` and `events.restrict`: event types, their keys and rights (paper 002)."""

from __future__ import annotations

from policyengine.conformance.fields import Fields
from policyengine.events import covers_json, restrict_json


def answer_covers(fields: Fields) -> dict[str, object]:
    """Tell whether the first subscription covers the second one."""
    first, second = fields.mapping("first"), fields.mapping("second")
    return {"covers": covers_json(fields.mapping("types"), first, second)}


def answer_restrict(fields: Fields) -> dict[str, object]:
    """Restrict a publication or a subscription to what roles may write or read."""
    return restrict_json(
        fields.mapping("types"),
        fields.mapping("policy"),
        fields.items("roles"),
        publication=fields.raw("publication"),
        subscription=fields.raw("subscription"),
    )
