"""What domains have agreed to open to one another (paper 002, section 3: negotiated policies)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from adminapp.core import names
from adminapp.core.models import CanonicalJSONField, Versioned
from adminapp.identity.models import Domain


class Side(models.TextChoices):
    """The two parties: whose events are concerned, and whose principals are let in."""

    PROVIDER = "provider"
    CONSUMER = "consumer"


class AgreementQuerySet(models.QuerySet[Any]):
    """Agreements belong to two domains at once."""

    def visible_to(self, user: Any) -> Self:
        """Those of either side's members; all for operators."""
        seen = Domain.objects.visible_to(user).values("pk")
        return self.filter(Q(provider__in=seen) | Q(consumer__in=seen))

    def in_force(self, at: Any = None) -> Self:
        """Accepted by both, begun, and not over at a moment (now by default)."""
        moment = at or timezone.now()
        return self.filter(
            state=Agreement.State.ACCEPTED,
            accepted_round__starts__lte=moment,
            accepted_round__ends__gt=moment,
        )


def over_or_protected(collector: Any, field: Any, rows: Any, using: str) -> None:
    """What is over goes with a domain, the audit keeps it; anything else holds the domain."""
    live = [row for row in rows if not row.over()]
    if live:
        models.PROTECT(collector, field, live, using)
    models.CASCADE(collector, field, rows, using)


class Agreement(Versioned):
    """A provider opens event types to roles of a consumer; what it says stands in its rounds."""

    class State(models.TextChoices):
        PROPOSED = "proposed"
        COUNTERED = "countered"
        ACCEPTED = "accepted"
        WITHDRAWN = "withdrawn"
        REJECTED = "rejected"

    provider = models.ForeignKey(
        Domain, on_delete=over_or_protected, related_name="agreements_given"
    )
    consumer = models.ForeignKey(
        Domain, on_delete=over_or_protected, related_name="agreements_taken"
    )
    name = models.CharField(max_length=64, validators=[names.label])
    state = models.CharField(max_length=16, choices=State, default=State.PROPOSED)
    accepted_round = models.ForeignKey(
        "AgreementRound", null=True, blank=True, on_delete=models.RESTRICT, related_name="+"
    )
    created = models.DateTimeField(default=timezone.now, editable=False)
    closed_at = models.DateTimeField(null=True, blank=True)
    closed_by = models.CharField(max_length=16, choices=Side, blank=True)
    reason = models.TextField(blank=True, max_length=2000)

    objects = AgreementQuerySet.as_manager()

    class Meta:
        ordering = ["provider_id", "name", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "name"],
                condition=~Q(state__in=("withdrawn", "rejected")),
                name="agreement_name_once",
            ),
            models.CheckConstraint(
                condition=~Q(provider=F("consumer")), name="agreement_of_two_domains"
            ),
            models.CheckConstraint(
                condition=Q(
                    state__in=("proposed", "countered", "accepted", "withdrawn", "rejected")
                ),
                name="agreement_state_known",
            ),
            models.CheckConstraint(
                condition=~Q(state="accepted") | Q(accepted_round__isnull=False),
                name="agreement_accepted_in_a_round",
            ),
            models.CheckConstraint(
                condition=Q(state__in=("withdrawn", "rejected"), closed_at__isnull=False)
                | Q(state__in=("proposed", "countered", "accepted"), closed_at__isnull=True),
                name="agreement_closed_when_over",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def over(self, at: datetime | None = None) -> bool:
        """Whether it can never open anything again: closed, or past its end with nothing new."""
        if self.state in (self.State.WITHDRAWN, self.State.REJECTED):
            return True
        last = self.accepted_round
        return (
            self.state == self.State.ACCEPTED
            and last is not None
            and last.ends <= (at or timezone.now())
        )

    def side_of(self, domain: Domain) -> str:
        """Which side a domain is on."""
        return Side.PROVIDER if domain.pk == self.provider_id else Side.CONSUMER

    def domain_of(self, side: str) -> Domain:
        """Whose side it is."""
        return self.provider if side == Side.PROVIDER else self.consumer


class AgreementRound(models.Model):
    """One proposal of terms; never changed."""

    agreement = models.ForeignKey(Agreement, on_delete=models.CASCADE, related_name="rounds")
    number = models.PositiveIntegerField()
    side = models.CharField(max_length=16, choices=Side)
    terms = CanonicalJSONField()
    digest = models.CharField(max_length=64)
    starts = models.DateTimeField()
    ends = models.DateTimeField()
    note = models.TextField(blank=True, max_length=2000)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    at = models.DateTimeField(default=timezone.now, editable=False)
    rejected_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["agreement_id", "number"]
        constraints = [
            models.UniqueConstraint(
                fields=["agreement", "number"], name="agreement_round_number_once"
            ),
            models.CheckConstraint(
                condition=Q(ends__gt=F("starts")), name="agreement_round_ends_after_start"
            ),
            models.CheckConstraint(condition=Q(number__gte=1), name="agreement_round_from_one"),
        ]

    def __str__(self) -> str:
        return f"round {self.number}"


class Acceptance(models.Model):
    """The word of one manager of a side for exactly the terms of a round."""

    round = models.ForeignKey(AgreementRound, on_delete=models.CASCADE, related_name="acceptances")
    side = models.CharField(max_length=16, choices=Side)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["round", "side", "actor"], name="agreement_accepted_once_a_person"
            )
        ]

    def __str__(self) -> str:
        return f"{self.round} by the {self.side}"
