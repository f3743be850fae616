"""Clients that read hidden attributes by keys for filters."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from adminapp.identity.models import Principal


class FilterReader(models.Model):
    """A client whose bundle brings no reading keys: it asks for those of its filters."""

    principal = models.OneToOneField(
        Principal, on_delete=models.CASCADE, primary_key=True, related_name="filter_reader"
    )
    since = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["principal_id"]

    def __str__(self) -> str:
        return str(self.principal)
