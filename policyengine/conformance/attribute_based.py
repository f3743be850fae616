"""`kpabe.open` and `cpabe.open`: payloads under attribute-based encryption (paper 001)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, cast

from policyengine.abe import cpabe_open, kpabe_open
from policyengine.conformance.fields import (
    Fields,
    expression_of,
    random_of,
    schema_of,
    values_of,
)
from policyengine.errors import DecryptionError

_MODES: Final = ("hash", "polynomial")


def answer_event(fields: Fields) -> dict[str, object]:
    """Encrypt for an event's values, and open with the key of a filter."""
    mode = cast(Literal["hash", "polynomial"], fields.word("mode", _MODES))
    schema = schema_of(fields)
    wanted = expression_of(fields, "filter", schema)
    event = values_of(fields, "event", schema)
    payload, random = fields.text("payload").encode(), random_of(fields)
    return _opened(lambda: kpabe_open(wanted, event, schema, payload, mode=mode, random=random))


def answer_payload(fields: Fields) -> dict[str, object]:
    """Encrypt under a policy, and open with the key of a subject's values."""
    schema = schema_of(fields)
    policy = expression_of(fields, "policy", schema)
    subject = values_of(fields, "subject", schema)
    payload, random = fields.text("payload").encode(), random_of(fields)
    return _opened(lambda: cpabe_open(policy, subject, schema, payload, random=random))


def _opened(attempt: Callable[[], bytes]) -> dict[str, object]:
    try:
        payload = attempt()
    except DecryptionError:
        return {"opened": False}
    return {"opened": True, "payload": payload.decode()}
