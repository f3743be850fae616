"""Who may define, advertise, publish and receive what, under which condition, and the environment
that conditions may name."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from adminapp.catalog.models import EventType
from adminapp.core import names
from adminapp.core.models import Versioned
from adminapp.identity.models import Domain, Principal
from adminapp.identity.querysets import DomainScopedQuerySet
from policyengine.bundles.encoded import MAX_LIMIT_COUNT, MAX_LIMIT_SECONDS


class Policy(Versioned):
    """A permission; what no policy permits is denied. It holds for the type's whole sub-tree.

    One to publish may say how often: `limit_count` events in any `limit_seconds`, for each
    publisher.
    """

    class Action(models.TextChoices):
        DEFINE = "define"
        ADVERTISE = "advertise"
        PUBLISH = "publish"
        SUBSCRIBE = "subscribe"

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="policies")
    name = models.CharField(max_length=64, validators=[names.label])
    title = models.CharField(max_length=200, blank=True)
    action = models.CharField(max_length=16, choices=Action)
    event_type = models.ForeignKey(EventType, on_delete=models.PROTECT, related_name="policies")
    expression = models.TextField(max_length=20_000)
    attributes = models.JSONField(null=True, blank=True)
    rules = models.JSONField(default=list, blank=True)
    enabled = models.BooleanField(default=True)
    valid_from = models.DateTimeField(null=True, blank=True)
    valid_until = models.DateTimeField(null=True, blank=True)
    limit_count = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_LIMIT_COUNT)],
    )
    limit_seconds = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_LIMIT_SECONDS)],
    )

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "name"]
        verbose_name_plural = "policies"
        constraints = [
            models.UniqueConstraint(fields=["domain", "name"], name="policy_name_once"),
            models.CheckConstraint(
                condition=Q(action__in=("define", "advertise", "publish", "subscribe")),
                name="policy_action_known",
            ),
            models.CheckConstraint(
                condition=Q(valid_from__isnull=True)
                | Q(valid_until__isnull=True)
                | Q(valid_until__gt=F("valid_from")),
                name="policy_ends_after_begin",
                violation_error_message="the end must come after the beginning",
            ),
            models.CheckConstraint(
                condition=Q(limit_count__isnull=True, limit_seconds__isnull=True)
                | Q(
                    # Comparisons with null alone would let half a limit pass.
                    limit_count__isnull=False,
                    limit_seconds__isnull=False,
                    action="publish",
                    limit_count__gte=1,
                    limit_count__lte=MAX_LIMIT_COUNT,
                    limit_seconds__gte=1,
                    limit_seconds__lte=MAX_LIMIT_SECONDS,
                ),
                name="policy_limit_is_whole",
                violation_error_message="a limit is a number of events and a span of time, of a "
                "policy to publish",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if self.valid_from and self.valid_until and self.valid_from >= self.valid_until:
            raise ValidationError({"valid_until": "the end must come after the beginning"})
        given = {
            name: getattr(self, name)
            for name in ("limit_count", "limit_seconds")
            if getattr(self, name) is not None
        }
        if given and self.action != self.Action.PUBLISH:
            raise ValidationError(dict.fromkeys(given, "only a policy to publish says how often"))
        if len(given) == 1:
            missing = "limit_seconds" if "limit_count" in given else "limit_count"
            raise ValidationError(
                {missing: "a limit is a number of events and a span of time: give both or none"}
            )

    @property
    def limit_words(self) -> str:
        """How often each publisher may publish by it, in words; "" for as often as it likes."""
        if self.limit_count is None or self.limit_seconds is None:
            return ""
        events = "1 event" if self.limit_count == 1 else f"{self.limit_count} events"
        span = "second" if self.limit_seconds == 1 else f"{self.limit_seconds} seconds"
        return f"at most {events} in any {span}"

    def in_force(self, at: object = None) -> bool:
        """Whether it is enabled and valid at a moment (now by default)."""
        moment = at or timezone.now()
        return (
            self.enabled
            and (self.valid_from is None or self.valid_from <= moment)
            and (self.valid_until is None or self.valid_until > moment)
        )


class PolicyVersionQuerySet(DomainScopedQuerySet):
    domain_path = "policy__domain"


class PolicyVersion(models.Model):
    """What a policy was; never changed."""

    policy = models.ForeignKey(Policy, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    snapshot = models.JSONField()
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    at = models.DateTimeField(default=timezone.now, editable=False)

    objects = PolicyVersionQuerySet.as_manager()

    class Meta:
        ordering = ["policy_id", "number"]
        constraints = [
            models.UniqueConstraint(fields=["policy", "number"], name="policy_version_once")
        ]

    def __str__(self) -> str:
        return f"{self.policy} {self.number}"


class EnvironmentVariable(Versioned):
    """A fact about the world that policies may name as `env.<name>`; managers and services set it.

    The variable `timezone` names the zone of the domain's wall clock.
    """

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="environment")
    name = models.CharField(max_length=64, validators=[names.identifier])
    title = models.CharField(max_length=200, blank=True)
    type = models.JSONField()
    value = models.JSONField(null=True, blank=True)
    set_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "name"]
        constraints = [
            models.UniqueConstraint(fields=["domain", "name"], name="environment_name_once"),
            models.CheckConstraint(
                condition=~Q(
                    name__in=("time", "hour", "minute", "weekday", "day", "month", "year", "date")
                ),
                name="environment_name_is_free",
                violation_error_message="the clock has this name already",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class RepresentativeQuerySet(DomainScopedQuerySet):
    domain_path = "principal__domain"

    def in_force(self) -> RepresentativeQuerySet:
        now = timezone.now()
        return self.filter(Q(ends__isnull=True) | Q(ends__gt=now), begins__lte=now)


class Representative(Versioned):
    """Somebody who signs in and acts for a principal: policies to define types let them."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="representations"
    )
    principal = models.ForeignKey(
        Principal, on_delete=models.CASCADE, related_name="representatives"
    )
    begins = models.DateTimeField(default=timezone.now, editable=False)
    ends = models.DateTimeField(null=True, blank=True)
    given_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = RepresentativeQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["user", "principal"],
                condition=Q(ends__isnull=True),
                name="representative_once",
                violation_error_message="this person acts for the principal already",
            ),
            models.CheckConstraint(
                condition=Q(ends__isnull=True) | Q(ends__gte=F("begins")),
                name="representative_ends_after_begin",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} for {self.principal}"
