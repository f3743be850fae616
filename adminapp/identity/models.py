"""People, domains, overlays, agents and the principals that publish and subscribe."""

from __future__ import annotations

import secrets
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone

from adminapp.core import names
from adminapp.core.models import Versioned
from adminapp.identity.querysets import (
    DelegationQuerySet,
    DomainQuerySet,
    DomainScopedQuerySet,
    OwnQuerySet,
    SharedQuerySet,
)


class User(AbstractUser, Versioned):
    """A person (or a program) that signs in. A superuser is an operator."""

    # Domains that this caller is kept to, whatever else the user may do; None is all of them.
    limited_to: frozenset[int] | None = None


class Domain(Versioned):
    """An organisation with its own model, policies and managers.

    The counts are what the quotas look at. They may be too high (rows that went with others are
    not counted back) and are made exact before anything is refused; None is not counted yet.
    `decision_days` is how long agents' decision logs are kept; 0 keeps none.
    """

    class Encoding(models.TextChoices):
        BLOOM = "bloom"
        TOKENS = "tokens"

    class Approval(models.TextChoices):
        """Which changes wait for a second person."""

        NEVER = "never"
        SENSITIVE = "sensitive"
        ALWAYS = "always"

    name = models.CharField(max_length=64, unique=True, validators=[names.slug])
    title = models.CharField(max_length=200)
    description = models.TextField(blank=True)
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="children"
    )
    revision = models.PositiveBigIntegerField(default=0, editable=False)
    lease_seconds = models.PositiveIntegerField(
        default=30, validators=[MinValueValidator(5), MaxValueValidator(86_400)]
    )
    decision_days = models.PositiveIntegerField(default=0, validators=[MaxValueValidator(3650)])
    encoding = models.CharField(max_length=16, choices=Encoding, default=Encoding.BLOOM)
    approval = models.CharField(max_length=16, choices=Approval, default=Approval.NEVER)
    max_objects = models.PositiveIntegerField(null=True, blank=True)
    max_principals = models.PositiveIntegerField(null=True, blank=True)
    requests_per_minute = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1)]
    )
    object_count = models.PositiveIntegerField(null=True, blank=True, editable=False)
    principal_count = models.PositiveIntegerField(null=True, blank=True, editable=False)

    objects = DomainQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(parent__isnull=True) | ~models.Q(parent=models.F("id")),
                name="domain_not_below_itself",
            ),
            models.CheckConstraint(
                condition=models.Q(approval__in=["never", "sensitive", "always"]),
                name="domain_approval_known",
            ),
            models.CheckConstraint(
                condition=models.Q(requests_per_minute__isnull=True)
                | models.Q(requests_per_minute__gte=1),
                name="domain_takes_requests",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Membership(Versioned):
    """What a user may do in a domain: managers change it, auditors read it."""

    class Role(models.TextChoices):
        MANAGER = "manager"
        AUDITOR = "auditor"

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["user", "domain"], name="one_membership_per_domain")
        ]

    def __str__(self) -> str:
        return f"{self.user} {self.role} of {self.domain}"


class Delegation(Versioned):
    """A part of a domain in a colleague's hands until an end; names, so that it outlives rows."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="delegations")
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="delegations")
    roles = models.JSONField(default=list, blank=True)
    event_types = models.JSONField(default=list, blank=True)
    begins = models.DateTimeField(default=timezone.now, editable=False)
    ends = models.DateTimeField()
    granted_by = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = DelegationQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["user", "ends"], name="delegations_in_force")]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(ends__gte=models.F("begins")), name="delegation_ends_after_begin"
            )
        ]

    def __str__(self) -> str:
        return f"{self.user} for a part of {self.domain}"


class Overlay(Versioned):
    """A network of brokers under one operator."""

    name = models.CharField(max_length=64, unique=True, validators=[names.slug])
    title = models.CharField(max_length=200)
    operator = models.CharField(max_length=200, blank=True)

    objects = SharedQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Agent(Versioned):
    """A broker agent; keys are public ones, base64url without padding."""

    class State(models.TextChoices):
        ACTIVE = "active"
        BANNED = "banned"

    name = models.CharField(max_length=64, unique=True, validators=[names.slug])
    overlay = models.ForeignKey(Overlay, on_delete=models.PROTECT, related_name="agents")
    sealing_key = models.CharField(max_length=64)
    verify_key = models.CharField(max_length=64)
    state = models.CharField(max_length=16, choices=State, default=State.ACTIVE)
    registered_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = SharedQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


def new_handle() -> str:
    """A name that says nothing: what stands in queue names and messages."""
    return f"p-{secrets.token_hex(8)}"


class Principal(Versioned):
    """A publisher, subscriber, service, person or broker agent of a domain.

    A broker agent is the platform's, and one of its principals is its standing in a domain: it has
    the agent's keys and no others.
    """

    class Kind(models.TextChoices):
        PUBLISHER = "publisher"
        SUBSCRIBER = "subscriber"
        SERVICE = "service"
        PERSON = "person"
        AGENT = "agent"

    class State(models.TextChoices):
        ACTIVE = "active"
        REVOKED = "revoked"

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="principals")
    name = models.CharField(max_length=64, validators=[names.label])
    kind = models.CharField(max_length=16, choices=Kind)
    handle = models.CharField(max_length=18, unique=True, default=new_handle, editable=False)
    attributes = models.JSONField(default=dict, blank=True)
    sealing_key = models.CharField(max_length=64, blank=True)
    verify_key = models.CharField(max_length=64, blank=True)
    certificate = models.TextField(blank=True)
    certificate_subject = models.CharField(max_length=1000, blank=True)
    certificate_fingerprint = models.CharField(max_length=64, blank=True)
    certificate_from = models.DateTimeField(null=True, blank=True)
    certificate_until = models.DateTimeField(null=True, blank=True)
    broker = models.ForeignKey(
        Agent, null=True, blank=True, on_delete=models.PROTECT, related_name="principals"
    )
    state = models.CharField(max_length=16, choices=State, default=State.ACTIVE)
    revoked_at = models.DateTimeField(null=True, blank=True)
    erased_at = models.DateTimeField(null=True, blank=True)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "name"]
        constraints = [
            models.UniqueConstraint(fields=["domain", "name"], name="principal_name_once"),
            models.UniqueConstraint(fields=["domain", "broker"], name="principal_broker_once"),
            models.CheckConstraint(
                condition=models.Q(kind="agent", broker__isnull=False)
                | (~models.Q(kind="agent") & models.Q(broker__isnull=True)),
                name="principal_agent_has_broker",
            ),
            models.CheckConstraint(
                condition=models.Q(certificate="", certificate_until__isnull=True)
                | (~models.Q(certificate="") & models.Q(certificate_until__isnull=False)),
                name="principal_certificate_whole",
            ),
            models.CheckConstraint(
                condition=models.Q(erased_at__isnull=True)
                | models.Q(state="revoked", certificate="", sealing_key="", verify_key=""),
                name="principal_erased_whole",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class HomeAgent(Versioned):
    """The agent that serves a principal on one overlay, and who does when it cannot or may not."""

    principal = models.ForeignKey(Principal, on_delete=models.CASCADE, related_name="homes")
    overlay = models.ForeignKey(Overlay, on_delete=models.PROTECT, related_name="+")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="homes")
    fallback = models.ForeignKey(
        Agent, null=True, blank=True, on_delete=models.PROTECT, related_name="fallback_homes"
    )

    class Meta:
        ordering = ["overlay_id"]
        constraints = [
            models.UniqueConstraint(fields=["principal", "overlay"], name="one_home_per_overlay"),
            models.CheckConstraint(
                condition=models.Q(fallback__isnull=True) | ~models.Q(fallback=models.F("agent")),
                name="fallback_is_another_agent",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.principal} at {self.agent}"

    def serving(self) -> Agent:
        """Who serves now: the fallback when the agent is banned."""
        if self.fallback is not None and self.agent.state == Agent.State.BANNED:
            return self.fallback
        return self.agent


def new_import() -> str:
    """A name for the files of an import that nobody guesses."""
    return secrets.token_hex(16)


class PrincipalImport(Versioned):
    """Principals from a CSV file: what was asked for, how far it is, what came of it."""

    class Mode(models.TextChoices):
        """What happens to the good rows when others are refused."""

        ALL = "all"
        VALID = "valid"

    class State(models.TextChoices):
        WAITING = "waiting"
        CHECKING = "checking"
        WRITING = "writing"
        DONE = "done"
        REFUSED = "refused"
        CANCELLED = "cancelled"
        FAILED = "failed"

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="imports")
    uid = models.CharField(max_length=32, unique=True, default=new_import, editable=False)
    # None is the system: a user who is deleted takes what was not done yet along.
    user = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    source = models.CharField(max_length=8, default="api", editable=False)
    mode = models.CharField(max_length=8, choices=Mode, default=Mode.ALL)
    dry_run = models.BooleanField(default=False)
    state = models.CharField(max_length=16, choices=State, default=State.WAITING)
    rows_total = models.PositiveIntegerField(default=0)
    rows_done = models.PositiveIntegerField(default=0)
    rows_refused = models.PositiveIntegerField(default=0)
    rows_written = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True)
    created = models.DateTimeField(default=timezone.now, editable=False)
    started = models.DateTimeField(null=True, blank=True)
    finished = models.DateTimeField(null=True, blank=True)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(dry_run=False) | models.Q(rows_written=0),
                name="dry_import_writes_nothing",
            )
        ]

    def __str__(self) -> str:
        return f"import {self.pk}"


class ApiToken(Versioned):
    """A bearer token; only its hash is kept."""

    SCOPES = ("read", "write", "revoke")

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=64, validators=[names.label])
    hash = models.CharField(max_length=64, unique=True, editable=False)
    scopes = models.JSONField(default=list)
    created = models.DateTimeField(default=timezone.now, editable=False)
    expires = models.DateTimeField()
    last_used = models.DateTimeField(null=True, blank=True, editable=False)
    # Said apart from the list: when the last of its domains goes, the token opens none, not all.
    restricted = models.BooleanField(default=False)
    domains = models.ManyToManyField(Domain, blank=True, related_name="+")

    objects = OwnQuerySet.as_manager()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.name

    def holder(self) -> User:
        """Its user, with no more rights than it gives: a restricted token opens its domains alone,
        and never what is the operators'.
        """
        user = self.user
        if self.restricted:
            user.limited_to = frozenset(self.domains.values_list("pk", flat=True))
            user.is_superuser = False
        return user

    def grants(self, scope: str) -> bool:
        granted: Any = self.scopes
        return scope in granted
