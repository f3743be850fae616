"""Optimistic locking: a change names the version that it was based on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.db import models

from adminapp.core.errors import Conflict, Invalid, Problem
from adminapp.core.models import Versioned

V = TypeVar("V", bound=Versioned)


def locked(obj: V, expected_version: int | None) -> V:
    """The row as it is now, locked where the database can, its version checked.

    Raises:
        Conflict: somebody else changed or deleted it since.
    """
    fresh = type(obj)._default_manager.select_for_update(of=("self",)).filter(pk=obj.pk).first()
    current = None if fresh is None else fresh.version
    if fresh is None or (expected_version is not None and current != expected_version):
        raise Conflict(
            f"this {obj._meta.verbose_name} was changed by somebody else in the meantime",
            expected=expected_version,
            current=current,
        )
    return fresh


def create(obj: V) -> V:
    """Validate and insert."""
    check(obj)
    obj.save(force_insert=True)
    return obj


def save(obj: V) -> V:
    """Validate and write a row that `locked` returned, one version up."""
    check(obj)
    before = obj.version
    obj.version = before + 1
    fields = {
        field.attname: getattr(obj, field.attname)
        for field in obj._meta.concrete_fields
        if not field.primary_key
    }
    changed = type(obj)._default_manager.filter(pk=obj.pk, version=before).update(**fields)
    if not changed:
        raise Conflict(
            f"this {obj._meta.verbose_name} was changed by somebody else in the meantime",
            expected=before,
            current=None,
        )
    return obj


def assign(obj: models.Model, data: Mapping[str, Any], allowed: frozenset[str]) -> None:
    """Set fields by name; a name that may not be set is a mistake of the caller's."""
    unknown = sorted(set(data) - allowed)
    if unknown:
        raise Invalid(Problem(f"/{name}", f"`{name}` cannot be set", "unknown") for name in unknown)
    for name, value in data.items():
        setattr(obj, name, value)


def check(obj: models.Model) -> None:
    """Run the model's own validation.

    Raises:
        Invalid: with a problem for each field.
    """
    try:
        obj.full_clean()
    except ValidationError as error:
        raise Invalid(_problems(error)) from error


def _problems(error: ValidationError) -> list[Problem]:
    return [
        Problem("" if field == "__all__" else f"/{field}", message)
        for field, messages in error.message_dict.items()
        for message in messages
    ]
