"""What a caller who came too late is told: the object as it is now, and where it differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rest_framework import exceptions, serializers

from adminapp.core.errors import Conflict, ServiceError


class Outdated(Conflict):
    """A conflict that shows the object of now beside what the caller wanted.

    Args:
        current: the object as its address answers it now.
        changes: each field that was sent and is different now.
    """

    def __init__(
        self, conflict: Conflict, *, current: dict[str, Any], changes: list[dict[str, Any]]
    ) -> None:
        super().__init__(
            conflict.message, expected=conflict.expected, current=current.get("version")
        )
        self.members = {"current": current, "changes": changes}


def outdated(view: Any, conflict: Conflict) -> Conflict:
    """The conflict with the difference, or as it was when its object is gone or not one."""
    name = view.lookup_url_kwarg or view.lookup_field
    if name not in view.kwargs:
        return conflict
    row = view.get_queryset().filter(**{view.lookup_field: view.kwargs[name]}).first()
    if row is None:
        return conflict
    # As its address answers: an answer to a change may say more than the object.
    serializer = view.serializer_class(row, context=view.get_serializer_context())
    current = dict(serializer.data)
    changes = list(_changes(serializer, _sent(view), current))
    return Outdated(conflict, current=current, changes=changes)


def _sent(view: Any) -> Mapping[str, Any]:
    try:
        data = view.request.data
    except exceptions.APIException:  # what cannot be read differs in no field
        return {}
    return data if isinstance(data, Mapping) else {}


def _changes(
    serializer: serializers.Serializer[Any], sent: Mapping[str, Any], current: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    for name, yours in sent.items():
        field = serializer.fields.get(name)
        if field is None or field.read_only or name not in current:
            continue
        if not _same(field, yours, current[name]):
            yield {"pointer": f"/{name}", "yours": yours, "theirs": current[name]}


def _same(field: Any, yours: Any, theirs: Any) -> bool:
    """Whether both say the same: a time, for one, can be written in several ways."""
    if yours == theirs:
        return True
    try:
        return bool(field.run_validation(yours) == field.run_validation(theirs))
    except (exceptions.APIException, ServiceError):
        return False
