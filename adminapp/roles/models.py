"""Roles, the rules that activate them, and the appointments that the rules ask for."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from adminapp.core import names
from adminapp.core.models import Versioned
from adminapp.identity.models import Domain, Principal
from adminapp.identity.querysets import DomainScopedQuerySet
from policyengine.roles import Atom

# Longest text of an appointment or an active role that a row has room for.
MAX_ATOM = 500


class RoleRuleQuerySet(DomainScopedQuerySet):
    domain_path = "role__domain"


class AppointmentQuerySet(DomainScopedQuerySet):
    domain_path = "principal__domain"

    def active(self, at: object = None) -> AppointmentQuerySet:
        """Those in force at a moment (now by default)."""
        moment = at or timezone.now()
        return self.filter(Q(ends__isnull=True) | Q(ends__gt=moment), starts__lte=moment)

    def lasting(self, at: object = None) -> AppointmentQuerySet:
        """Those that have not ended at a moment (now by default), to come included."""
        moment = at or timezone.now()
        return self.filter(Q(ends__isnull=True) | Q(ends__gt=moment))


class AtomField(models.CharField):  # type: ignore[type-arg]
    """Name and parameters of a row as one text: `badge(7, West)`. It follows them."""

    def pre_save(self, model_instance: models.Model, add: bool) -> str:
        row: Any = model_instance
        text = Atom(row.name, tuple(row.parameters)).text
        setattr(row, self.attname, text)
        return text


class Role(Versioned):
    """A role of a domain, named in policies as `subject.role`.

    `parameters` are in order, each a name (of a text) or `{"name": ..., "type": {...}}`.
    """

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="roles")
    name = models.CharField(max_length=64, validators=[names.identifier])
    title = models.CharField(max_length=200, blank=True)
    parameters = models.JSONField(default=list, blank=True)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "name"]
        constraints = [models.UniqueConstraint(fields=["domain", "name"], name="role_name_once")]

    def __str__(self) -> str:
        return self.name


class RoleRule(Versioned):
    """One way to activate a role: all prerequisites and appointments, while constraints hold.

    All are texts as the engine reads them (`officer(x)`). `arguments` are what the role's
    parameters are in this rule; `membership` are the conditions that must keep holding.
    """

    role = models.ForeignKey(Role, on_delete=models.CASCADE, related_name="rules")
    arguments = models.JSONField(default=list, blank=True)
    prerequisites = models.JSONField(default=list, blank=True)
    appointments = models.JSONField(default=list, blank=True)
    constraints = models.JSONField(default=list, blank=True)
    membership = models.JSONField(default=list, blank=True)

    objects = RoleRuleQuerySet.as_manager()

    class Meta:
        ordering = ["role_id", "id"]

    def __str__(self) -> str:
        return f"rule of {self.role}"


class AppointmentRule(Versioned):
    """Who may appoint to what, and for how long.

    `parameters` name the values of the appointment, in order. `by` are roles; who has one may
    appoint. A role may name parameters of the appointment: `chief(station)` appoints within the
    own station only. `longest` is in seconds.
    """

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="appointment_rules")
    name = models.CharField(max_length=64, validators=[names.identifier])
    title = models.CharField(max_length=200, blank=True)
    parameters = models.JSONField(default=list, blank=True)
    by = models.JSONField(default=list, blank=True)
    longest = models.PositiveIntegerField(null=True, blank=True)
    lapses_with_issuer = models.BooleanField(default=False)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "name"]
        constraints = [
            models.UniqueConstraint(fields=["domain", "name"], name="appointment_rule_name_once"),
            models.CheckConstraint(
                condition=Q(longest__isnull=True) | Q(longest__gt=0),
                name="appointment_rule_longest_positive",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Appointment(Versioned):
    """A standing given to a principal, for a time, by a person or by another principal.

    `atom` is what it says as text (`badge(7, West)`), `number` tells those apart that say the same
    and have not ended. `closed` is when it ended or its lapse was recorded.
    """

    principal = models.ForeignKey(Principal, on_delete=models.CASCADE, related_name="appointments")
    name = models.CharField(max_length=64, validators=[names.identifier])
    parameters = models.JSONField(default=list, blank=True)
    atom = AtomField(max_length=MAX_ATOM, editable=False, blank=True, default="")
    number = models.PositiveSmallIntegerField(default=1)
    starts = models.DateTimeField(default=timezone.now)
    ends = models.DateTimeField(null=True, blank=True, db_index=True)
    closed = models.DateTimeField(null=True, blank=True, editable=False)
    reason = models.CharField(max_length=500, blank=True)
    issuer = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    issued_by = models.ForeignKey(
        Principal, null=True, blank=True, on_delete=models.RESTRICT, related_name="issued"
    )

    objects = AppointmentQuerySet.as_manager()

    class Meta:
        ordering = ["principal_id", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["principal", "atom", "number"],
                condition=Q(closed__isnull=True),
                name="appointment_number_once",
            ),
            models.CheckConstraint(
                condition=Q(ends__isnull=True) | Q(ends__gte=F("starts")),
                name="appointment_ends_after_start",
            ),
            models.CheckConstraint(
                condition=Q(issued_by__isnull=True) | ~Q(issued_by=F("principal")),
                name="appointment_not_by_oneself",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.atom or self.name} of {self.principal}"


class RoleSettings(Versioned):
    """How roles count in a domain.

    `by_session`: only roles that are active in an open session count, instead of every role that
    could be activated.
    """

    domain = models.OneToOneField(Domain, on_delete=models.CASCADE, related_name="role_settings")
    by_session = models.BooleanField(default=False)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id"]
        verbose_name_plural = "role settings"

    def __str__(self) -> str:
        return f"roles of {self.domain}"


class RoleSession(Versioned):
    """Roles that a principal activated together; each ends as soon as it must."""

    principal = models.ForeignKey(Principal, on_delete=models.CASCADE, related_name="sessions")
    opened = models.DateTimeField(default=timezone.now, editable=False)
    opened_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    closed = models.DateTimeField(null=True, blank=True, editable=False)
    reason = models.CharField(max_length=500, blank=True)

    objects = AppointmentQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(closed__isnull=True) | Q(closed__gte=F("opened")),
                name="session_closed_after_opening",
            )
        ]

    def __str__(self) -> str:
        return f"session {self.pk} of {self.principal}"


class SessionRole(models.Model):
    """A role within a session: why it is active, and why it ended.

    `grounds` is the engine's account of the activation, `chain` one sentence for every role that
    fell on the way, the first cause first.
    """

    session = models.ForeignKey(RoleSession, on_delete=models.CASCADE, related_name="roles")
    atom = models.CharField(max_length=MAX_ATOM)
    rule = models.JSONField()
    grounds = models.JSONField()
    since = models.DateTimeField()
    ended = models.DateTimeField(null=True, blank=True)
    chain = models.JSONField(default=list, blank=True)

    class Meta:
        ordering = ["session_id", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["session", "atom"],
                condition=Q(ended__isnull=True),
                name="session_role_active_once",
            ),
            models.CheckConstraint(
                condition=Q(ended__isnull=True) | Q(ended__gte=F("since")),
                name="session_role_ended_after_start",
            ),
        ]

    def __str__(self) -> str:
        return self.atom
