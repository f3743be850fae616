"""What is published: event types in a tree, their attributes, the keys that protect them."""

from __future__ import annotations

from django.db import models

from adminapp.catalog.querysets import AttributeQuerySet
from adminapp.core import names
from adminapp.core.models import Versioned
from adminapp.identity.models import Domain
from adminapp.identity.querysets import DomainScopedQuerySet


class AttributeKey(Versioned):
    """A name for a key that agents encrypt attributes under; the key itself is never here."""

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="attribute_keys")
    name = models.CharField(max_length=64, validators=[names.slug])
    title = models.CharField(max_length=200, blank=True)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "name"]
        constraints = [
            models.UniqueConstraint(fields=["domain", "name"], name="attribute_key_name_once")
        ]

    def __str__(self) -> str:
        return self.name


class EventType(Versioned):
    """A type of event; a sub-type has its parent's attributes and may add its own."""

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="event_types")
    name = models.CharField(max_length=64, validators=[names.identifier])
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="children"
    )
    title = models.CharField(max_length=200, blank=True)
    description = models.TextField(blank=True)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "name"]
        constraints = [
            models.UniqueConstraint(fields=["domain", "name"], name="event_type_name_once")
        ]

    def __str__(self) -> str:
        return self.name


class Attribute(Versioned):
    """An attribute that an event type declares; no keys is public."""

    class PiaClass(models.TextChoices):
        IDENTIFYING = "identifying"
        QUASI_IDENTIFYING = "quasi-identifying"
        CONFIDENTIAL = "confidential"
        NON_CONFIDENTIAL = "non-confidential"

    event_type = models.ForeignKey(EventType, on_delete=models.CASCADE, related_name="attributes")
    name = models.CharField(max_length=64, validators=[names.identifier])
    type = models.JSONField()
    keys = models.ManyToManyField(AttributeKey, blank=True, related_name="attributes")
    pia_class = models.CharField(max_length=20, choices=PiaClass, default=PiaClass.NON_CONFIDENTIAL)
    pia_reason = models.TextField(blank=True)
    order = models.PositiveIntegerField(default=0)

    objects = AttributeQuerySet.as_manager()

    class Meta:
        ordering = ["event_type_id", "order", "id"]
        constraints = [
            models.UniqueConstraint(fields=["event_type", "name"], name="attribute_name_once")
        ]

    def __str__(self) -> str:
        return f"{self.event_type}.{self.name}"


class SubjectAttribute(Versioned):
    """What policies may say about `subject.<name>`, beside `subject.role`."""

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="subject_attributes")
    name = models.CharField(max_length=64, validators=[names.identifier])
    type = models.JSONField()

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "name"]
        constraints = [
            models.UniqueConstraint(fields=["domain", "name"], name="subject_attribute_name_once")
        ]

    def __str__(self) -> str:
        return self.name
