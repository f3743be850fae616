"""What every row of the control plane has in common."""

from __future__ import annotations

from typing import Any

from django.db import models

from adminapp.core import canonical


class Versioned(models.Model):
    """A row with an integer version: the one that a change was based on must still hold."""

    version = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        abstract = True


class CanonicalJSONField(models.TextField):
    """JSON kept as its canonical text, so that the bytes that were hashed come back as they were.

    PostgreSQL's jsonb would rewrite numbers; a hash over them would then no longer verify.
    """

    def from_db_value(self, value: str | None, _expression: Any, _connection: Any) -> Any:
        return None if value is None else canonical.loads(value)

    def to_python(self, value: Any) -> Any:
        return value

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None else canonical.dumps(value)

    def value_to_string(self, obj: models.Model) -> str:
        return canonical.dumps(self.value_from_object(obj))
