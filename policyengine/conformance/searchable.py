"""`sde.match`: a filter and an event under multi-user searchable encryption (paper 001)."""

from __future__ import annotations

from typing import Final, cast

from policyengine.conformance.fields import (
    Fields,
    expression_of,
    random_of,
    schema_of,
    values_of,
)
from policyengine.sde import GroupName, sde_match

_GROUPS: Final = ("curve", "zp1024")


def answer_match(fields: Fields) -> dict[str, object]:
    """Encrypt both sides, let the broker re-encrypt, and match."""
    group = cast(GroupName, fields.word("group", _GROUPS))
    schema = schema_of(fields)
    wanted = expression_of(fields, "filter", schema)
    event = values_of(fields, "event", schema)
    random = random_of(fields)
    return {"matched": sde_match(wanted, event, schema, group=group, random=random)}
