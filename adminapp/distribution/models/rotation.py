"""When keys are renewed by themselves."""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone

from adminapp.core.models import Versioned
from adminapp.identity.models import Domain
from adminapp.identity.querysets import DomainScopedQuerySet


class RotationSchedule(Versioned):
    """How often a key of a domain is renewed.

    `key` is the reference of one key (`key:tail`, `overlay:a`), `blind` for those of hidden
    attributes, `encodings` for those of anonymous sets, or `all` for every key of agents without
    a schedule of its own. Each time up to `jitter_percent` of the time is left away at random, so
    that domains do not all rotate together and nobody can foretell when.
    """

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="rotations")
    key = models.CharField(max_length=80)
    every_days = models.PositiveIntegerField(
        validators=[MinValueValidator(1), MaxValueValidator(3650)]
    )
    jitter_percent = models.PositiveIntegerField(default=10, validators=[MaxValueValidator(50)])
    next_at = models.DateTimeField(default=timezone.now)
    last_at = models.DateTimeField(null=True, blank=True)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "key"]
        constraints = [
            models.UniqueConstraint(fields=["domain", "key"], name="one_rotation_of_a_key")
        ]

    def __str__(self) -> str:
        return self.key
