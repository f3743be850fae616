"""What is made for each audience, and what it says that it holds."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from adminapp.core import names
from adminapp.core.models import Versioned
from adminapp.identity.models import Domain
from adminapp.identity.querysets import DomainScopedQuerySet, SharedQuerySet


class Bundle(Versioned):
    """One sealed message for one audience, and how far it got."""

    class State(models.TextChoices):
        BUILT = "built"
        SENT = "sent"
        RECEIVED = "received"
        APPLIED = "applied"
        REJECTED = "rejected"
        SUPERSEDED = "superseded"

    class Form(models.TextChoices):
        WHOLE = "whole"
        DELTA = "delta"

    audience = models.CharField(max_length=80)
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="bundles")
    revision = models.PositiveBigIntegerField()
    digest = models.CharField(max_length=64)
    # Digests that this revision had before it was sealed anew: an agent may hold one of those.
    replaced = models.JSONField(default=list, blank=True)
    # Which epochs of which keys stand in it, and in which state: group -> epoch -> state.
    keys = models.JSONField(default=dict, blank=True)
    content_hash = models.CharField(max_length=64, blank=True)
    form = models.CharField(max_length=8, choices=Form, default=Form.WHOLE)
    root_version = models.PositiveBigIntegerField(default=1)
    size = models.PositiveIntegerField()
    message = models.BinaryField()
    state = models.CharField(max_length=16, choices=State, default=State.BUILT)
    reason = models.CharField(max_length=64, blank=True)
    built_at = models.DateTimeField(default=timezone.now)
    sent_at = models.DateTimeField(null=True, blank=True)
    acknowledged_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField()

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "audience", "revision"]
        indexes = [models.Index(fields=["state", "audience"])]
        constraints = [
            models.UniqueConstraint(
                fields=["audience", "domain", "revision"], name="one_bundle_per_revision"
            )
        ]

    def __str__(self) -> str:
        return f"{self.audience} {self.domain} revision {self.revision}"


class Compilation(models.Model):
    """The newest revision of a domain of which every bundle was made."""

    domain = models.OneToOneField(Domain, on_delete=models.CASCADE, related_name="compilation")
    revision = models.PositiveBigIntegerField(default=0)
    at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"{self.domain} up to {self.revision}"


class Recipient(Versioned):
    """What an audience last said, signed, that it holds; and what its leases must demand."""

    class State(models.TextChoices):
        SILENT = "silent"
        APPLIED = "applied"
        REJECTED = "rejected"
        BEHIND = "behind"
        CONTRADICTS = "contradicts"

    audience = models.CharField(max_length=80)
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="recipients")
    revision = models.PositiveBigIntegerField(default=0)
    digest = models.CharField(max_length=64, blank=True)
    notice = models.PositiveBigIntegerField(default=0)
    epochs = models.JSONField(default=dict)
    reads = models.JSONField(default=list)
    # Of the bundle that it proved to hold: its signature over the digest covers them.
    keys = models.JSONField(default=dict, blank=True)
    state = models.CharField(max_length=16, choices=State, default=State.SILENT)
    reason = models.CharField(max_length=64, blank=True)
    last_seen = models.DateTimeField(null=True, blank=True)
    reported_at = models.BigIntegerField(default=0)
    minimum_revision = models.PositiveBigIntegerField(default=0)
    leased_until = models.DateTimeField(null=True, blank=True)
    # Since when it has had leases without a gap between two of them.
    leased_since = models.DateTimeField(null=True, blank=True)
    # The root of trust that it says it trusts when it asks for a lease; 0 where it never did.
    root_version = models.PositiveBigIntegerField(default=0)
    # The last encoding epoch whose tag keys a client was given; 0 where it never was.
    tag_epoch = models.PositiveIntegerField(default=0)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["audience", "domain_id"]
        constraints = [
            models.UniqueConstraint(fields=["audience", "domain"], name="recipient_once")
        ]

    def __str__(self) -> str:
        return f"{self.audience} of {self.domain}"


class Comparator(Versioned):
    """A process beside agents that opens what they compare; it gets the keys of its domains.

    Keys are public ones, base64url without padding.
    """

    name = models.CharField(max_length=64, unique=True, validators=[names.slug])
    sealing_key = models.CharField(max_length=64)
    verify_key = models.CharField(max_length=64)
    domains = models.ManyToManyField(Domain, related_name="comparators")
    registered_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = SharedQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
