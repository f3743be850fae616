"""What agents decided: segments of their logs, what was made of them, and the check of receipts."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from adminapp.core.models import Versioned
from adminapp.distribution.models.revocations import Revocation
from adminapp.distribution.models.uids import new_uid
from adminapp.identity.models import Domain
from adminapp.identity.querysets import DomainScopedQuerySet


class DecisionKey(models.Model):
    """The key that a domain's decision logs are sealed to; the private half is wrapped."""

    domain = models.OneToOneField(Domain, on_delete=models.CASCADE, related_name="decision_key")
    wrapped = models.TextField()
    public = models.BinaryField()

    def __str__(self) -> str:
        return f"decision key of {self.domain}"


class DecisionSegment(models.Model):
    """A numbered piece of one agent's log. `data` is the sealed rows until they are in Parquet.

    It says that every decision from `begin` until before `end` is in it, but for `lost` ones.
    Times are milliseconds since 1970, by the agent's lease.
    """

    class State(models.TextChoices):
        RECEIVED = "received"
        STORED = "stored"
        COUNTED = "counted"
        BROKEN = "broken"

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="decision_segments")
    agent = models.CharField(max_length=64)
    stream = models.CharField(max_length=32)
    sequence = models.PositiveBigIntegerField()
    begin = models.PositiveBigIntegerField()
    end = models.PositiveBigIntegerField()
    lost = models.PositiveBigIntegerField(default=0)
    records = models.PositiveIntegerField()
    data = models.BinaryField(null=True)
    state = models.CharField(max_length=16, choices=State, default=State.RECEIVED)
    received_at = models.DateTimeField(default=timezone.now)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "agent", "begin"]
        indexes = [models.Index(fields=["domain", "state"]), models.Index(fields=["domain", "end"])]
        constraints = [
            models.UniqueConstraint(
                fields=["domain", "agent", "stream", "sequence"], name="decision_segment_once"
            )
        ]

    def __str__(self) -> str:
        return f"segment {self.sequence} of {self.agent}"


class ActivityRun(Versioned):
    """A run over a domain's decision logs, with its progress."""

    class State(models.TextChoices):
        PENDING = "pending"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    uid = models.CharField(max_length=32, unique=True, default=new_uid, editable=False)
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="activity_runs")
    cause = models.CharField(max_length=32)
    state = models.CharField(max_length=16, choices=State, default=State.PENDING)
    stages = models.JSONField(default=list)
    days = models.JSONField(default=list)
    records = models.PositiveBigIntegerField(default=0)
    attempts = models.PositiveIntegerField(default=0)
    heartbeat = models.DateTimeField(null=True, blank=True)
    created = models.DateTimeField(default=timezone.now, editable=False)
    finished = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"activity {self.uid}"


class ActivityDay(models.Model):
    """How often something was used on one day, UTC.

    `subject` is a policy's name in bundles, a role's name, `<handle>/<subscription>`, an
    event type or `*`. Refusals of a role are those of clients that have it.
    """

    class Kind(models.TextChoices):
        POLICY = "policy"
        ROLE = "role"
        SUBSCRIPTION = "subscription"
        TYPE = "type"
        ALL = "all"

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="activity_days")
    day = models.DateField()
    kind = models.CharField(max_length=16, choices=Kind)
    subject = models.CharField(max_length=200)
    granted = models.PositiveBigIntegerField(default=0)
    suppressed = models.PositiveBigIntegerField(default=0)
    refused = models.PositiveBigIntegerField(default=0)
    reasons = models.JSONField(default=dict)
    last = models.PositiveBigIntegerField(default=0)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "day", "kind", "subject"]
        constraints = [
            models.UniqueConstraint(
                fields=["domain", "kind", "subject", "day"], name="activity_day_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject} on {self.day}"


class RevokedRight(models.Model):
    """What a revocation took away in one domain, as agents' decision logs are held against it.

    `names` are clients' handles or agents' names; an empty `action`, `type` or `policy` is any.
    Actions are those of policies, policies are named as in logs, without the last part of an
    agreement's. `floor` is the domain's first revision that knows of it, `until` the moment from
    which on nothing of it may pass. `again` says for each name the revision from which on it may
    pass once more. `partly` is what the same policy gives in part still; with `more` something
    ended that does not stand here.
    """

    class Party(models.TextChoices):
        CLIENT = "client"
        AGENT = "agent"

    class State(models.TextChoices):
        WATCHED = "watched"
        UNLOGGED = "unlogged", "the domain kept no decisions then"
        EXPIRED = "expired", "decisions of then are not kept any more"

    revocation = models.ForeignKey(Revocation, on_delete=models.CASCADE, related_name="rights")
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="revoked_rights")
    party = models.CharField(max_length=8, choices=Party, default=Party.CLIENT)
    names = models.JSONField(default=list)
    action = models.CharField(max_length=16, blank=True)
    type = models.CharField(max_length=128, blank=True)
    policy = models.CharField(max_length=64, blank=True)
    floor = models.PositiveBigIntegerField(default=0)
    until = models.DateTimeField()
    again = models.JSONField(default=dict)
    partly = models.BooleanField(default=False)
    more = models.BooleanField(default=False)
    state = models.CharField(max_length=16, choices=State, default=State.WATCHED)

    class Meta:
        ordering = ["revocation_id", "id"]
        indexes = [models.Index(fields=["domain", "state"])]

    def __str__(self) -> str:
        return f"what {self.revocation} took away in {self.domain}"


class RevocationCheck(models.Model):
    """What one domain's decision logs of one day say of one revocation; times as in
    `DecisionSegment`.

    `within` and `after` are what passed by what was revoked, before and after the guarantee's
    moment; there must be none after. `unclear` passed later too, by what ended and by what did
    not, or by what ended in part; `early` passed later by other rights, under a revision that the
    notice had put out of use. `contradicting` names the agents of what passed after.
    """

    revocation = models.ForeignKey(Revocation, on_delete=models.CASCADE, related_name="checks")
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="receipt_checks")
    day = models.DateField()
    decisions = models.PositiveBigIntegerField(default=0)
    within = models.PositiveBigIntegerField(default=0)
    after = models.PositiveBigIntegerField(default=0)
    unclear = models.PositiveBigIntegerField(default=0)
    early = models.PositiveBigIntegerField(default=0)
    refused = models.PositiveBigIntegerField(default=0)
    last = models.PositiveBigIntegerField(default=0)
    agents = models.JSONField(default=list)
    contradicting = models.JSONField(default=list)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["revocation_id", "domain_id", "day"]
        constraints = [
            models.UniqueConstraint(
                fields=["revocation", "domain", "day"], name="revocation_check_once"
            )
        ]

    def __str__(self) -> str:
        return f"check of {self.revocation} in {self.domain} on {self.day}"
