"""What is published: event types in a tree, their attributes, the keys that protect them."""

from __future__ import annotations

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from adminapp.catalog.querysets import AttributeQuerySet, TypeScopedQuerySet
from adminapp.core import names
from adminapp.core.models import Versioned
from adminapp.identity.models import Domain
from adminapp.identity.querysets import DomainScopedQuerySet

type_name = RegexValidator(
    r"\A[A-Za-z_][A-Za-z0-9_]{0,55}(?:@[1-9][0-9]{0,5})?\Z|\A[A-Za-z_][A-Za-z0-9_]{0,63}\Z",
    "use letters, digits and underscores, at most 64, no digit first",
)
"""A type's name: `Departure`, or `Departure@2` for the second of its versions in force."""


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
    """A type of event; a sub-type has its parent's attributes and may add its own.

    `profile` presets the protection of the attributes that the type declares, and of those of its
    sub-types that have no profile; without any, an attribute is protected by the keys it names.
    A retired type is in force nowhere; its row keeps the name from ever meaning something else.
    """

    class Profile(models.TextChoices):
        OPEN = "open"
        TRUSTED_BROKERS = "trusted brokers"
        BLIND_BROKERS = "blind brokers"
        BLIND_RANGES = "blind ranges"
        SPLIT = "split"

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="event_types")
    name = models.CharField(max_length=64, validators=[type_name])
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="children"
    )
    title = models.CharField(max_length=200, blank=True)
    description = models.TextField(blank=True)
    profile = models.CharField(max_length=20, choices=Profile, blank=True)
    retired = models.BooleanField(default=False)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "name"]
        constraints = [
            models.UniqueConstraint(fields=["domain", "name"], name="event_type_name_once"),
            models.CheckConstraint(
                condition=Q(parent=None) | ~Q(parent=models.F("id")),
                name="event_type_not_its_own_parent",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class EventTypeVersion(models.Model):
    """What an event type was after each change; never changed."""

    event_type = models.ForeignKey(EventType, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    document = models.JSONField()
    note = models.CharField(max_length=500, blank=True)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    at = models.DateTimeField(default=timezone.now, editable=False)

    objects = TypeScopedQuerySet.as_manager()

    class Meta:
        ordering = ["event_type_id", "number"]
        constraints = [
            models.UniqueConstraint(fields=["event_type", "number"], name="event_type_version_once")
        ]

    def __str__(self) -> str:
        return f"{self.event_type} {self.number}"


class Attribute(Versioned):
    """An attribute that an event type declares.

    An empty `protection` is the preset of the type's profile, or without one: under its keys, or
    in clear where it names none.
    """

    class Protection(models.TextChoices):
        CLEAR = "clear"
        ATTRIBUTE_KEY = "attribute key"
        SEARCHABLE = "searchable"
        ORDER_PRESERVING = "order-preserving"

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
    protection = models.CharField(max_length=20, choices=Protection, blank=True)
    sealed = models.BooleanField(default=False)
    order = models.PositiveIntegerField(default=0)

    objects = AttributeQuerySet.as_manager()

    class Meta:
        ordering = ["event_type_id", "order", "id"]
        constraints = [
            models.UniqueConstraint(fields=["event_type", "name"], name="attribute_name_once"),
            models.CheckConstraint(
                condition=Q(sealed=False) | ~Q(protection__in=["", "clear"]),
                name="attribute_in_clear_is_not_sealed",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event_type}.{self.name}"


class RiskAcceptance(Versioned):
    """Somebody's written word that an attribute may be protected less than its class asks for.

    It is about one class and one protection; when either changes, or `until` has come, it no
    longer holds.
    """

    event_type = models.ForeignKey(
        EventType, on_delete=models.CASCADE, related_name="risk_acceptances"
    )
    attribute = models.CharField(max_length=64, validators=[names.identifier])
    pia_class = models.CharField(max_length=20, choices=Attribute.PiaClass)
    protection = models.CharField(max_length=20, choices=Attribute.Protection)
    justification = models.TextField(max_length=10_000)
    accepted_by = models.CharField(max_length=200)
    until = models.DateTimeField()

    objects = TypeScopedQuerySet.as_manager()

    class Meta:
        ordering = ["event_type_id", "attribute"]
        constraints = [
            models.UniqueConstraint(
                fields=["event_type", "attribute"], name="risk_acceptance_once_an_attribute"
            ),
            models.CheckConstraint(
                condition=~Q(justification="") & ~Q(accepted_by=""),
                name="risk_acceptance_says_who_and_why",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event_type}.{self.attribute}"


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
