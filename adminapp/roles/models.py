"""Roles, the rules that activate them, and the appointments that the rules ask for."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from adminapp.core import names
from adminapp.core.models import Versioned
from adminapp.identity.models import Domain, Principal
from adminapp.identity.querysets import DomainScopedQuerySet


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


class Appointment(Versioned):
    """A standing given to a principal by a person, for a time."""

    principal = models.ForeignKey(Principal, on_delete=models.CASCADE, related_name="appointments")
    name = models.CharField(max_length=64, validators=[names.identifier])
    parameters = models.JSONField(default=list, blank=True)
    starts = models.DateTimeField(default=timezone.now)
    ends = models.DateTimeField(null=True, blank=True)
    issuer = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = AppointmentQuerySet.as_manager()

    class Meta:
        ordering = ["principal_id", "id"]

    def __str__(self) -> str:
        return f"{self.name} of {self.principal}"
