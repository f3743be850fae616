"""What policies say, as a value that is kept and compared; pure but for the rows it is made of.

A change that can only take rights away waits for no canary: whatever the newest model no longer
permits is taken out of what was accepted before, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from adminapp.catalog.models import EventType
from adminapp.core.moments import moment
from adminapp.policies.models import Policy

Definition = Mapping[str, Any]
Definitions = Mapping[str, Definition]

_KEPT = ("action", "event_type_id", "expression", "attributes", "rules")
_LIMITS = ("limit_count", "limit_seconds")
_SPAN = ("valid_from", "valid_until")


def definitions(rows: Iterable[Policy]) -> dict[str, dict[str, Any]]:
    """What these policies say, by number; those that are switched off say nothing."""
    return {str(row.pk): _definition(row) for row in rows if row.enabled}


def _definition(row: Policy) -> dict[str, Any]:
    kept = {name: getattr(row, name) for name in (*_KEPT, *_LIMITS)}
    return kept | {name: moment(getattr(row, name)) for name in _SPAN}


def grants_more(accepted: Definitions, target: Definitions) -> bool:
    """Whether `target` may permit what `accepted` does not; in doubt it does."""
    return any(
        name not in accepted or _widens(accepted[name], said) for name, said in target.items()
    )


def _widens(before: Definition, after: Definition) -> bool:
    if any(before[name] != after[name] for name in (*_KEPT, *_LIMITS)):
        return True
    return _begins(after) < _begins(before) or _ends(after) > _ends(before)


def _begins(said: Definition) -> datetime:
    return _moment(said, "valid_from") or datetime.min.replace(tzinfo=UTC)


def _ends(said: Definition) -> datetime:
    return _moment(said, "valid_until") or datetime.max.replace(tzinfo=UTC)


def _moment(said: Definition, name: str) -> datetime | None:
    return None if said[name] is None else datetime.fromisoformat(said[name])


def rows_of(accepted: Definitions, now: Iterable[Policy]) -> list[Policy]:
    """The accepted policies as unsaved rows, without what the newest model took away.

    Args:
        accepted: what they said.
        now: the rows of the newest model.
    """
    types = EventType.objects.in_bulk(
        {said["event_type_id"] for said in accepted.values() if said["event_type_id"]}
    )
    found: list[Policy] = []
    for row in now:
        said = accepted.get(str(row.pk))
        # INVARIANT: what is gone or switched off grants nothing under any accepted revision.
        if said is None or not row.enabled or said["event_type_id"] not in types:
            continue
        found.append(_row(row, said, types[said["event_type_id"]]))
    return found


def _row(row: Policy, said: Definition, kind: EventType) -> Policy:
    fields = {name: said[name] for name in (*_KEPT, *_LIMITS) if name != "event_type_id"}
    begins = [each for each in (row.valid_from, _moment(said, "valid_from")) if each]
    ends = [each for each in (row.valid_until, _moment(said, "valid_until")) if each]
    return Policy(
        pk=row.pk,
        domain=row.domain,
        name=row.name,
        title=row.title,
        event_type=kind,
        enabled=True,
        valid_from=max(begins, default=None),
        valid_until=min(ends, default=None),
        **fields,
    )
