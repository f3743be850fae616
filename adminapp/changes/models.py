"""Change sets: every edit, what it would do, who agreed to it, and the revision it became."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from adminapp.core.models import CanonicalJSONField, Versioned
from adminapp.identity.models import Domain
from adminapp.identity.querysets import DomainScopedQuerySet


class ChangeSetQuerySet(DomainScopedQuerySet):
    """Those of the platform are its operators'."""

    def waiting(self) -> ChangeSetQuerySet:
        """Those that somebody has to decide about."""
        return self.filter(Q(state=ChangeSet.State.SUBMITTED) | Q(review=ChangeSet.Review.DUE))


class ChangeSet(Versioned):
    """A change of one domain, as a whole.

    `operations` is what is asked for (`[{"op", "kind", "key", "document"}]`); what an applied one
    did stands in the audit under its number.
    """

    class State(models.TextChoices):
        DRAFT = "draft"
        SUBMITTED = "submitted"
        APPLIED = "applied"
        REJECTED = "rejected"
        WITHDRAWN = "withdrawn"

    class Review(models.TextChoices):
        NONE = "none"
        DUE = "due"
        APPROVED = "approved"
        UNDONE = "undone"

    domain = models.ForeignKey(
        Domain, null=True, blank=True, on_delete=models.SET_NULL, related_name="change_sets"
    )
    domain_name = models.CharField(max_length=64, blank=True)
    message = models.CharField(max_length=500, blank=True)
    source = models.CharField(max_length=16)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    state = models.CharField(max_length=16, choices=State, default=State.DRAFT)
    operations = CanonicalJSONField(default=list)
    plan = CanonicalJSONField(null=True, blank=True)
    base_revision = models.PositiveBigIntegerField(default=0)
    revision = models.PositiveBigIntegerField(null=True, blank=True)
    restores = models.PositiveBigIntegerField(null=True, blank=True)
    created = models.DateTimeField(default=timezone.now, editable=False)
    submitted = models.DateTimeField(null=True, blank=True)
    applied = models.DateTimeField(null=True, blank=True)
    review = models.CharField(max_length=16, choices=Review, default=Review.NONE)
    urgent_until = models.DateTimeField(null=True, blank=True)

    objects = ChangeSetQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["domain", "state"]),
            models.Index(fields=["domain", "revision"]),
        ]
        constraints = [
            models.CheckConstraint(
                condition=~Q(state="applied") | Q(applied__isnull=False),
                name="applied_change_set_has_its_time",
            ),
            models.CheckConstraint(
                condition=Q(review="none") | Q(urgent_until__isnull=False),
                name="reviewed_change_set_was_urgent",
            ),
        ]

    def __str__(self) -> str:
        return f"change set {self.pk} of {self.domain_name or 'the platform'}"


class Decision(models.Model):
    """What a second person said of a change set, and of which plan."""

    class Verdict(models.TextChoices):
        APPROVED = "approved"
        REJECTED = "rejected"

    change_set = models.ForeignKey(ChangeSet, on_delete=models.CASCADE, related_name="decisions")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    verdict = models.CharField(max_length=16, choices=Verdict)
    comment = models.TextField(blank=True)
    base_revision = models.PositiveBigIntegerField()
    at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.verdict} {self.change_set}"


class AnnouncementQuerySet(models.QuerySet[Any]):
    def visible_to(self, user: Any) -> AnnouncementQuerySet:
        if not user.is_authenticated:
            return self.none()
        own = self.filter(user=user)
        if user.limited_to is None:
            return own
        return own.filter(change_set__domain__in=user.limited_to)


class Announcement(Versioned):
    """Something that one person has to hear of."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="announcements"
    )
    change_set = models.ForeignKey(
        ChangeSet, on_delete=models.CASCADE, related_name="announcements"
    )
    text = models.CharField(max_length=500)
    at = models.DateTimeField(default=timezone.now, editable=False)
    read = models.DateTimeField(null=True, blank=True)

    objects = AnnouncementQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(read__isnull=True) | Q(read__gte=F("at")),
                name="announcement_read_after_it_was_made",
            )
        ]

    def __str__(self) -> str:
        return self.text
