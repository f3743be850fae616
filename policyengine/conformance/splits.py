"""`split.plan`, `split.roundtrip` and `split.learns`: data over several overlays (paper 004)."""

from __future__ import annotations

from policyengine.conformance.fields import Fields, random_of
from policyengine.privacy import learns_json, plan_json, roundtrip_json


def answer_plan(fields: Fields) -> dict[str, object]:
    """Find the overlays of attributes, and which are encrypted."""
    return plan_json(
        fields.members("attributes", "risky", "colluding", "max_overlays", "encrypt_cost")
    )


def answer_roundtrip(fields: Fields) -> dict[str, object]:
    """Split a publication, lose and repeat parts, and put it together again."""
    request = fields.members("plan", "publication", "deliver")
    return roundtrip_json(request, random=random_of(fields))


def answer_learns(fields: Fields) -> dict[str, object]:
    """Tell what colluding overlays see of a publication."""
    request = fields.members("plan", "publication", "colluding")
    return learns_json(request, random=random_of(fields))
