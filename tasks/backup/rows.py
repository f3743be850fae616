"""Rows as lines of JSON, and back: what the ORM knows of a field is all that is needed."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db import models
from django.utils.duration import duration_string

# Who is signed in at the moment is no part of a backup: a restore signs everybody out.
LEFT_OUT = frozenset({"sessions.session"})


def tables() -> list[type[models.Model]]:
    """Every table of the control plane, many-to-many ones included, by name."""
    found = [
        model
        for model in apps.get_models(include_auto_created=True)
        if model._meta.managed and not model._meta.proxy and label(model) not in LEFT_OUT
    ]
    return sorted(found, key=label)


def label(model: type[models.Model]) -> str:
    return model._meta.label_lower


def columns(model: type[models.Model]) -> list[str]:
    return [field.attname for field in model._meta.concrete_fields]


def lines(model: type[models.Model]) -> Iterator[str]:
    """A table's rows in the order of their keys, one list each."""
    rows = model._base_manager.order_by("pk").values_list(*columns(model))
    for row in rows.iterator(chunk_size=1000):
        yield json.dumps([_plain(value) for value in row], ensure_ascii=False)


def rows(model: type[models.Model], names: list[str], data: bytes) -> Iterable[models.Model]:
    """The rows that a part holds."""
    fields = {field.attname: field for field in model._meta.concrete_fields}
    used = [fields[name] for name in names]
    for line in data.splitlines():
        values = json.loads(line)
        yield model(
            **{
                name: _value(field, value)
                for name, field, value in zip(names, used, values, strict=True)
            }
        )


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes | memoryview | bytearray):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, timedelta):
        return duration_string(value)
    if isinstance(value, Decimal | UUID):
        return str(value)
    return value


def _value(field: models.Field[Any, Any], value: Any) -> Any:
    if value is None:
        return None
    if isinstance(field, models.BinaryField):
        return base64.b64decode(value)
    if isinstance(field, models.ForeignKey):
        return _value(field.target_field, value)
    return field.to_python(value)
