"""The end of rights: revocations, their timeline, and the notices that carry them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone

from adminapp.core.models import Versioned
from adminapp.distribution.models.rollouts import Rollout
from adminapp.distribution.models.uids import new_uid
from adminapp.identity.models import Domain, Principal
from adminapp.identity.querysets import DomainScopedQuerySet


class Revocation(Versioned):
    """The end of rights, from the notice to the signed receipt.

    `principal` is whose rights end, where they are one principal's; `subject` says what exactly
    was ended, without naming a person; `before` is what the receipt compares with at the end.
    `held_against` is what decision logs said of it when they were last counted.
    """

    class Kind(models.TextChoices):
        PRINCIPAL = "principal"
        APPOINTMENT = "appointment"
        HOLDER = "role-holder", "role of a holder"
        ROLE = "role"
        ATTRIBUTE = "attribute"
        AGREEMENT = "agreement"
        CLIENT_KEY = "client-key", "key of a client"
        AGENT = "agent"
        MEMBER = "trust-group-member", "member of a trust group"

    class State(models.TextChoices):
        NOTICED = "noticed"
        APPLYING = "applying"
        RECOMPUTING = "recomputing"
        STAGING = "staging"
        SWITCHING = "switching"
        DRAINING = "draining"
        COMPLETE = "complete"
        FAILED = "failed"

    uid = models.CharField(max_length=32, unique=True, default=new_uid, editable=False)
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="revocations")
    kind = models.CharField(max_length=24, choices=Kind, default=Kind.PRINCIPAL)
    principal = models.ForeignKey(
        Principal, null=True, blank=True, on_delete=models.CASCADE, related_name="revocations"
    )
    subject = models.JSONField(default=dict)
    batch = models.CharField(max_length=32, blank=True, db_index=True)
    revision = models.PositiveBigIntegerField(default=0)
    before = models.JSONField(default=dict)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    reason = models.TextField()
    state = models.CharField(max_length=16, choices=State, default=State.NOTICED)
    rollout = models.ForeignKey(
        Rollout, null=True, blank=True, on_delete=models.SET_NULL, related_name="revocations"
    )
    created = models.DateTimeField(default=timezone.now, editable=False)
    epoch_from = models.PositiveIntegerField(null=True, blank=True)
    epoch_to = models.PositiveIntegerField(null=True, blank=True)
    receipt = models.JSONField(null=True, blank=True)
    held_against = models.JSONField(default=dict, blank=True)
    completed = models.DateTimeField(null=True, blank=True)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"revocation of {self.what}"

    @property
    def what(self) -> str:
        """What was revoked, for people."""
        return what(str(self.kind), self.principal.name if self.principal else "", self.subject)

    @property
    def moves_epoch(self) -> bool:
        """Whether its end is a change of epochs, not only of the policy."""
        return self.kind in MOVES_ENCODINGS or self.kind == self.Kind.MEMBER


MOVES_ENCODINGS = frozenset(
    {Revocation.Kind.PRINCIPAL, Revocation.Kind.CLIENT_KEY, Revocation.Kind.AGENT}
)
"""Kinds after which nothing may be tagged or matched in the epoch that the party knew."""

_WHAT = {
    Revocation.Kind.PRINCIPAL: "{principal}",
    Revocation.Kind.APPOINTMENT: "the appointment {appointment} of {principal}",
    Revocation.Kind.HOLDER: "the role {role} of {principal}",
    Revocation.Kind.ROLE: "the role {role}",
    Revocation.Kind.ATTRIBUTE: "the attribute {attribute} of {principal}",
    Revocation.Kind.AGREEMENT: "the agreement {agreement} of {provider} with {consumer}",
    Revocation.Kind.CLIENT_KEY: "the keys of {principal}",
    Revocation.Kind.AGENT: "the agent {agent}",
    Revocation.Kind.MEMBER: "the agent {agent} in the trust group {trust_group}",
}


def what(kind: str, principal: str, subject: Mapping[str, Any]) -> str:
    """What a revocation ends, in words."""
    named = {str(key): str(value) for key, value in subject.items()}
    return _WHAT[Revocation.Kind(kind)].format(**{**named, "principal": principal})


class RevocationEvent(models.Model):
    """One thing that happened in a revocation, for the live timeline."""

    revocation = models.ForeignKey(Revocation, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(default=timezone.now)
    kind = models.CharField(max_length=32)
    detail = models.JSONField(default=dict)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.kind} at {self.at}"


class Notice(Versioned):
    """A numbered, sealed denial for one audience.

    `floors` are what it takes away until `revision` is in force there; empty where handles are
    denied for good. By `deadline` the last lease that was given before it has ended.
    """

    class State(models.TextChoices):
        BUILT = "built"
        SENT = "sent"
        APPLIED = "applied"
        REJECTED = "rejected"

    audience = models.CharField(max_length=80)
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="notices")
    number = models.PositiveBigIntegerField()
    revocation = models.ForeignKey(Revocation, on_delete=models.CASCADE, related_name="notices")
    floors = models.JSONField(default=dict)
    revision = models.PositiveBigIntegerField(default=0)
    deadline = models.DateTimeField(null=True, blank=True)
    message = models.BinaryField(null=True)
    state = models.CharField(max_length=16, choices=State, default=State.BUILT)
    sent_at = models.DateTimeField(null=True, blank=True)
    acknowledged_at = models.DateTimeField(null=True, blank=True)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "audience", "number"]
        constraints = [
            models.UniqueConstraint(
                fields=["audience", "domain", "number"], name="notice_number_once"
            )
        ]

    def __str__(self) -> str:
        return f"notice {self.number} for {self.audience}"
