"""Who did what: entries that are only ever added, each holding the hash of the one before."""

from __future__ import annotations

from django.db import models

from adminapp.core.models import CanonicalJSONField


class Entry(models.Model):
    """One change. Names, not foreign keys: an entry outlives what it speaks of."""

    sequence = models.PositiveBigIntegerField(unique=True)
    at = models.DateTimeField()
    actor_name = models.CharField(max_length=150)
    action = models.CharField(max_length=64)
    domain_name = models.CharField(max_length=64, blank=True)
    object_type = models.CharField(max_length=64)
    object_id = models.CharField(max_length=64)
    object_name = models.CharField(max_length=200, blank=True)
    before = CanonicalJSONField(null=True)
    after = CanonicalJSONField(null=True)
    previous_hash = models.CharField(max_length=64, blank=True)
    hash = models.CharField(max_length=64)

    class Meta:
        ordering = ["sequence"]
        verbose_name_plural = "entries"
        indexes = [
            models.Index(fields=["domain_name", "sequence"]),
            models.Index(fields=["object_type", "object_id"]),
        ]

    def __str__(self) -> str:
        return f"{self.sequence}: {self.actor_name} {self.action} {self.object_name}"


class ChainHead(models.Model):
    """The end of the chain, in one row: who adds an entry locks it, who cuts the end is seen."""

    sequence = models.PositiveBigIntegerField(default=0)
    hash = models.CharField(max_length=64, blank=True)

    def __str__(self) -> str:
        return f"chain up to {self.sequence}"
