"""Tokens, requests and certificates: how agents and clients come to take part."""

from __future__ import annotations

import secrets
from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.utils import timezone

from adminapp.core import names
from adminapp.core.models import Versioned
from adminapp.identity.models import Agent, Domain, Overlay, Principal, User
from adminapp.identity.querysets import DomainScopedQuerySet

MAX_FLEET = 10_000


def new_uid() -> str:
    """An identifier that nobody guesses."""
    return secrets.token_hex(16)


class Kind(models.TextChoices):
    """Who enrols."""

    AGENT = "agent"
    CLIENT = "client"


class OperatorQuerySet(models.QuerySet[Any]):
    """Rows of the platform, which operators alone may see."""

    def visible_to(self, user: Any) -> OperatorQuerySet:
        allowed = user.is_authenticated and user.is_active and user.is_superuser
        return self.all() if allowed else self.none()


class Fleet(Versioned):
    """Agents that are confirmed by themselves: so many, of such names, until an end."""

    name = models.CharField(max_length=64, unique=True, validators=[names.slug])
    overlay = models.ForeignKey(Overlay, on_delete=models.PROTECT, related_name="fleets")
    pattern = models.CharField(
        max_length=64,
        validators=[
            RegexValidator(r"\A[a-z0-9-]+\*?[a-z0-9-]*\Z", "letters, digits, `-` and one `*`")
        ],
    )
    most = models.PositiveIntegerField(
        validators=[MinValueValidator(1), MaxValueValidator(MAX_FLEET)]
    )
    ends = models.DateTimeField()
    created = models.DateTimeField(default=timezone.now, editable=False)
    created_by = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = OperatorQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(condition=models.Q(most__gte=1), name="fleet_has_room")
        ]

    def __str__(self) -> str:
        return self.name


class EnrolmentToken(Versioned):
    """A secret that lets one agent or client ask, once; only its hash is kept."""

    uid = models.CharField(max_length=32, unique=True, default=new_uid, editable=False)
    kind = models.CharField(max_length=8, choices=Kind)
    # An agent's name, or empty where a fleet's pattern says which names may be.
    name = models.CharField(max_length=64, blank=True)
    overlay = models.ForeignKey(
        Overlay, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    fleet = models.ForeignKey(
        Fleet, null=True, blank=True, on_delete=models.CASCADE, related_name="tokens"
    )
    principal = models.ForeignKey(
        Principal, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    domain = models.ForeignKey(
        Domain, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    hash = models.CharField(max_length=64, unique=True, editable=False)
    created = models.DateTimeField(default=timezone.now, editable=False)
    created_by = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    expires = models.DateTimeField()
    spent_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(kind="agent", overlay__isnull=False, principal__isnull=True)
                | models.Q(
                    kind="client",
                    overlay__isnull=True,
                    fleet__isnull=True,
                    principal__isnull=False,
                    domain__isnull=False,
                ),
                name="enrolment_token_is_for_one",
            )
        ]

    def __str__(self) -> str:
        return self.whom()

    def whom(self) -> str:
        """Whom it is for, as people call it."""
        if self.principal is not None:
            return self.principal.name
        return self.name or f"fleet {self.fleet}"


class Enrolment(Versioned):
    """A request to take part, from its arrival to its end."""

    class State(models.TextChoices):
        PENDING = "pending"
        CONFIRMED = "confirmed"
        REFUSED = "refused"
        EXPIRED = "expired"
        # Confirmed once; others keys took its place since.
        REPLACED = "replaced"

    uid = models.CharField(max_length=32, unique=True, default=new_uid, editable=False)
    token = models.OneToOneField(
        EnrolmentToken, on_delete=models.CASCADE, related_name="enrolment", editable=False
    )
    kind = models.CharField(max_length=8, choices=Kind, editable=False)
    # An agent's name or a client's handle.
    name = models.CharField(max_length=64, editable=False)
    overlay = models.ForeignKey(
        Overlay, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    agent = models.ForeignKey(
        Agent, null=True, blank=True, on_delete=models.CASCADE, related_name="enrolments"
    )
    principal = models.ForeignKey(
        Principal, null=True, blank=True, on_delete=models.CASCADE, related_name="enrolments"
    )
    domain = models.ForeignKey(
        Domain, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    request = models.BinaryField(editable=False)
    offer = models.BinaryField(editable=False)
    sealing_key = models.CharField(max_length=64, editable=False)
    verify_key = models.CharField(max_length=64, editable=False)
    fingerprint = models.CharField(max_length=64, editable=False)
    challenge = models.CharField(max_length=64, editable=False)
    # Since when it is known that the sealing key's holder is the one that asks.
    proven_at = models.DateTimeField(null=True, editable=False)
    state = models.CharField(max_length=16, choices=State, default=State.PENDING, editable=False)
    reason = models.CharField(max_length=500, blank=True, editable=False)
    created = models.DateTimeField(default=timezone.now, editable=False)
    expires = models.DateTimeField(editable=False)
    decided_at = models.DateTimeField(null=True, editable=False)
    decided_by = models.ForeignKey(
        User, null=True, on_delete=models.SET_NULL, related_name="+", editable=False
    )

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["state", "expires"], name="enrolments_waiting")]

    def __str__(self) -> str:
        return self.whom

    @property
    def whom(self) -> str:
        """Whom it is for, as people call it."""
        return self.name if self.principal is None else self.principal.name


class Certificate(Versioned):
    """A certificate for TLS that was issued to an enrolment."""

    enrolment = models.ForeignKey(Enrolment, on_delete=models.CASCADE, related_name="certificates")
    serial = models.CharField(max_length=40, unique=True)
    subject = models.CharField(max_length=300)
    request = models.TextField()
    pem = models.TextField()
    begins = models.DateTimeField()
    ends = models.DateTimeField()
    follows = models.OneToOneField(
        "self", null=True, blank=True, on_delete=models.CASCADE, related_name="followed_by"
    )

    class CertificateQuerySet(DomainScopedQuerySet):
        domain_path = "enrolment__domain"

    objects = CertificateQuerySet.as_manager()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.serial
