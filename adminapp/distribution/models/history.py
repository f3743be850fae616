"""Who enforced which revision when, as audiences signed it."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from adminapp.identity.models import Domain
from adminapp.identity.querysets import DomainScopedQuerySet


class Enforcement(models.Model):
    """From when on an audience said, signed, that a revision is in force at it.

    `proven` is whether a bundle of this revision with this digest was ever built for it; one that
    was not is kept too, and shown as what it is. Revision 0 is holding nothing.
    """

    audience = models.CharField(max_length=80)
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="enforcements")
    revision = models.PositiveBigIntegerField()
    digest = models.CharField(max_length=64, blank=True)
    applied_at = models.DateTimeField(default=timezone.now)
    proven = models.BooleanField(default=True)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["domain", "audience", "applied_at"]),
            models.Index(fields=["audience", "applied_at"]),
        ]

    def __str__(self) -> str:
        return f"{self.audience} of {self.domain} at {self.revision}"
