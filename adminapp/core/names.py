"""Which names objects may have. Names end up in queue names, expressions and files."""

from __future__ import annotations

from django.core.validators import RegexValidator

slug = RegexValidator(
    r"\A[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?\Z",
    "use small letters, digits and hyphens, at most 64, a letter or digit at both ends",
)
identifier = RegexValidator(
    r"\A[A-Za-z_][A-Za-z0-9_]{0,63}\Z",
    "use letters, digits and underscores, at most 64, no digit first",
)
label = RegexValidator(
    r"\A[A-Za-z0-9](?:[A-Za-z0-9 ._-]{0,62}[A-Za-z0-9._-])?\Z",
    "use letters, digits, spaces, points, hyphens and underscores, at most 64",
)
