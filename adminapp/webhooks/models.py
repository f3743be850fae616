"""Addresses outside that are told what happens in a domain, and what was said to them."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from adminapp.core import names
from adminapp.core.models import CanonicalJSONField, Versioned
from adminapp.identity.models import Domain
from adminapp.identity.querysets import DomainScopedQuerySet


class Webhook(Versioned):
    """An address that hears of events of a domain; its secret is kept sealed."""

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="webhooks")
    name = models.CharField(max_length=64, validators=[names.label])
    url = models.CharField(max_length=500)
    events = models.JSONField(default=list)
    secret = models.BinaryField(editable=False)
    enabled = models.BooleanField(default=True)
    # Failed attempts since the last success.
    failures = models.PositiveIntegerField(default=0, editable=False)
    disabled_at = models.DateTimeField(null=True, blank=True, editable=False)
    created = models.DateTimeField(default=timezone.now, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["domain", "name"], name="webhook_name_once"),
            models.CheckConstraint(
                condition=Q(enabled=False) | Q(disabled_at__isnull=True),
                name="webhook_enabled_or_disabled_at",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class DeliveryQuerySet(DomainScopedQuerySet):
    domain_path = "webhook__domain"


class Delivery(models.Model):
    """One message to a webhook, however often it had to be tried."""

    class State(models.TextChoices):
        PENDING = "pending"
        DELIVERED = "delivered"
        FAILED = "failed"

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    number = models.PositiveBigIntegerField()
    message_id = models.CharField(max_length=40)
    event = models.CharField(max_length=64)
    payload = CanonicalJSONField()
    state = models.CharField(max_length=16, choices=State, default=State.PENDING)
    attempts = models.PositiveIntegerField(default=0)
    status = models.PositiveSmallIntegerField(null=True, blank=True)
    error = models.CharField(max_length=500, blank=True)
    created = models.DateTimeField(default=timezone.now, editable=False)
    last_attempt = models.DateTimeField(null=True, blank=True)
    next_attempt = models.DateTimeField(null=True, blank=True)
    delivered = models.DateTimeField(null=True, blank=True)
    redelivers = models.PositiveBigIntegerField(null=True, blank=True)

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["webhook", "number"], name="delivery_number_once"),
            models.CheckConstraint(
                condition=~Q(state="delivered") | Q(delivered__isnull=False),
                name="delivered_delivery_has_its_time",
            ),
        ]

    def __str__(self) -> str:
        return f"delivery {self.number} to {self.webhook}"
