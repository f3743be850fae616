"""The control plane's metrics, and alert rules that fire on what they are about."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client
from django.utils import timezone

from adminapp.core.exposition import Gauge, exposition
from adminapp.distribution import metrics, roots
from adminapp.distribution.models import (
    ActivityRun,
    Bundle,
    DecisionSegment,
    EncodingEpoch,
    Notice,
    Pulse,
    Recipient,
    RecomputeJob,
    Revocation,
    RevocationCheck,
    RevokedRight,
    Rollout,
)
from adminapp.enrolment.models import Certificate, Enrolment, EnrolmentToken
from adminapp.identity.models import Agent, Domain, Principal
from adminapp.outbox.models import OutboxRow
from tests.support.audiences import Plane
from tests.support.kept_planes import PlaneKeeper
from tests.unit.distribution.conftest import at_rest

RULES = {
    rule["alert"]: rule
    for group in yaml.safe_load(Path("docs/alerts.yml").read_text())["groups"]
    for rule in group["rules"]
}
_EXPR = re.compile(r'(\w+)(?:\{(\w+)="(\w+)"\})? ([<>]) (\d+)')
_ABSENT = re.compile(r"absent\((\w+)\)")


def fires(rule: dict[str, Any], gauges: dict[str, Gauge]) -> bool:
    """Read a rule as Prometheus does, without its `for`."""
    if absent := _ABSENT.fullmatch(rule["expr"]):
        return not gauges[absent[1]].samples
    name, label, wanted, sign, number = _EXPR.fullmatch(rule["expr"]).groups()
    held = [
        value
        for labels, value in gauges[name].samples
        if label is None or labels.get(label) == wanted
    ]
    return any(value > int(number) if sign == ">" else value < int(number) for value in held)


def firing() -> set[str]:
    gauges = {gauge.name: gauge for gauge in metrics.collect()}
    return {name for name, rule in RULES.items() if fires(rule, gauges)}


def ago(**span: int) -> Any:
    return timezone.now() - timedelta(**span)


def _revocation(domain: Domain, **changes: Any) -> Revocation:
    someone = Principal.objects.filter(domain=domain).first()
    members = {"domain": domain, "principal": someone, "reason": "r", "created": ago(hours=2)}
    return Revocation.objects.create(**{**members, **changes})


def _bundle(domain: Domain, **changes: Any) -> Bundle:
    members = {
        "audience": "agent:alpha", "domain": domain, "revision": 10**6, "digest": "0" * 64,
        "size": 1, "message": b"x", "expires_at": timezone.now() + timedelta(days=9),
    }  # fmt: skip
    return Bundle.objects.create(**{**members, **changes})


def _segment(domain: Domain, **changes: Any) -> DecisionSegment:
    members = {"domain": domain, "agent": "alpha", "stream": "s", "sequence": 1, "begin": 0,
               "end": 1, "records": 0}  # fmt: skip
    return DecisionSegment.objects.create(**{**members, **changes})


def _notice(domain: Domain, **changes: Any) -> Notice:
    row = _revocation(domain)
    return Notice.objects.create(
        audience="agent:alpha", domain=domain, number=99, revocation=row, **changes
    )


def _outbox(domain: Domain) -> None:
    OutboxRow.objects.create(topic="t", key="old", created_at=ago(minutes=9))


def _silent_logs(domain: Domain) -> None:
    Domain.objects.filter(pk=domain.pk).update(decision_days=30)
    moment = int(ago(days=3).timestamp() * 1000)
    _segment(domain, state="counted", begin=moment - 1, end=moment)


def _segments(domain: Domain) -> None:
    DecisionSegment.objects.bulk_create(
        DecisionSegment(domain=domain, agent="a", stream="s", sequence=n, begin=0, end=1, records=0)
        for n in range(10_001)
    )


def _recompute(domain: Domain, **changes: Any) -> None:
    epoch = EncodingEpoch.objects.create(domain=domain, number=99, cause="x", parameters={})
    RecomputeJob.objects.create(domain=domain, epoch=epoch, cause="x", **changes)


def _certificate(domain: Domain) -> None:
    alpha = Agent.objects.get(name="alpha")
    token = EnrolmentToken.objects.create(
        kind="agent", name="alpha", overlay=alpha.overlay, expires=timezone.now()
    )
    enrolment = Enrolment.objects.create(
        token=token,
        request=b"r",
        offer=b"o",
        kind="agent",
        name="alpha",
        agent=alpha,
        overlay=alpha.overlay,
        state="confirmed",
        sealing_key=alpha.sealing_key,
        verify_key=alpha.verify_key,
        expires=timezone.now() + timedelta(days=1),
    )
    Certificate.objects.create(
        enrolment=enrolment, serial="1", subject="CN=alpha", request="", pem="",
        begins=ago(days=9), ends=timezone.now() + timedelta(hours=3),
    )  # fmt: skip


def _contradicted(domain: Domain) -> None:
    RevocationCheck.objects.create(
        revocation=_revocation(domain), domain=domain, day=timezone.now().date(), after=1
    )


def _unverified(domain: Domain) -> None:
    RevokedRight.objects.create(
        revocation=_revocation(domain), domain=domain, until=ago(days=3), names=["p-1"]
    )


STATES: dict[str, Callable[[Domain], Any]] = {
    "OutboxStuck": _outbox,
    "OutboxFailed": lambda _: OutboxRow.objects.create(topic="t", key="f", state="failed"),
    "BundlesUnacknowledged": lambda d: _bundle(d, state="sent", sent_at=ago(minutes=9)),
    "BundlesRejected": lambda _: Bundle.objects.update(state="rejected"),
    "NoticeUnacknowledged": lambda d: _notice(d, state="sent", sent_at=ago(minutes=2)),
    "AgentsWithoutLease": lambda _: Recipient.objects.update(leased_until=ago(minutes=1)),
    "AgentsBehind": lambda _: Recipient.objects.update(revision=0),
    "AgentContradicts": lambda _: Recipient.objects.filter(audience="agent:alpha").update(
        state="contradicts"
    ),
    "BundleExpiring": lambda _: Bundle.objects.update(
        expires_at=timezone.now() + timedelta(hours=2)
    ),
    "CertificateExpiring": _certificate,
    "RolloutStuck": lambda d: Rollout.objects.create(
        domain=d, cause="x", stage_started=ago(hours=1)
    ),
    "RevocationPastGuarantee": lambda d: _notice(d, state="sent", sent_at=timezone.now()),
    "RevocationUnfinished": _revocation,
    "ReceiptContradicted": _contradicted,
    "ReceiptsUnverified": _unverified,
    "JobsFailed": lambda d: ActivityRun.objects.create(
        domain=d, cause="x", state="failed", finished=ago(hours=1)
    ),
    "RecomputeSilent": lambda d: _recompute(d, state="running", heartbeat=ago(minutes=9)),
    "DecisionLogsSilent": _silent_logs,
    "DecisionSegmentsWaiting": _segments,
    "DecisionSegmentsBroken": lambda d: _segment(d, state="broken"),
    "BeatSilent": lambda _: Pulse.objects.update(at=ago(minutes=9)),
    "BeatNeverSeen": lambda _: Pulse.objects.all().delete(),
}


@pytest.fixture
def quiet(plane: Plane, planes: PlaneKeeper) -> Domain:
    """A control plane on which everything is as it should be."""
    found = at_rest(plane, planes, "heating")
    plane.lease_all()
    OutboxRow.objects.exclude(state="done").delete()
    metrics.beat()
    return found


def test_nothing_fires_where_all_is_well_and_each_rule_on_its_own_state(quiet: Domain) -> None:
    """One control plane for all of them: a savepoint takes every state back."""
    from django.db import transaction

    assert firing() <= {"AuditUnsigned", "RootSelfMade"}
    missed = []
    for name, make in STATES.items():
        point = transaction.savepoint()
        make(quiet)
        if name not in firing():
            missed.append(name)
        transaction.savepoint_rollback(point)
    assert missed == []


def test_an_authority_that_is_away_is_told(quiet: Domain, settings: Any, tmp_path: Path) -> None:
    from adminapp.core.authority import get_authority

    settings.AUTHORITY_SOCKET = tmp_path / "nobody.sock"
    get_authority().close()
    assert "AuthorityAway" in firing()
    get_authority().close()


ABOUT_ROOTS = {"RootSelfMade", "RootEnding", "RootEndingSoon", "AgentsUnderOlderRoot"}
SIGNED_BY_PEOPLE = roots.RootStanding(1, self_made=False, days=365.0)


def test_the_root_of_trust_is_watched(quiet: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [
        ({}, set()),
        ({"self_made": True}, {"RootSelfMade"}),
        ({"days": 89.9}, {"RootEnding"}),
        ({"days": 13.9}, {"RootEnding", "RootEndingSoon"}),
        ({"days": -1.0}, {"RootEnding", "RootEndingSoon"}),
        # Nobody has followed to the second one yet.
        ({"version": 2}, {"AgentsUnderOlderRoot"}),
    ]
    for changes, told in cases:
        monkeypatch.setattr(roots, "standing", lambda c=changes: replace(SIGNED_BY_PEOPLE, **c))
        assert firing() & ABOUT_ROOTS == told, changes
    monkeypatch.setattr(roots, "standing", lambda: None)
    assert firing() & ABOUT_ROOTS == set()


def test_the_root_of_trust_is_told_as_the_authority_has_it(quiet: Domain) -> None:
    found = {gauge.name: gauge.samples for gauge in metrics.collect()}
    assert found["portcullis_root_version"] == [({}, 1.0)]
    assert found["portcullis_root_self_made"] == [({}, 1.0)]
    assert found["portcullis_agents_under_older_root"] == [({}, 0.0)]
    # It was made for ten years at the beginning of this run.
    ((_, days),) = found["portcullis_root_expiry_days"]
    assert 3649 < days <= 3650


def test_every_rule_is_of_a_metric_and_says_what_it_means(quiet: Domain) -> None:
    gauges = {gauge.name for gauge in metrics.collect()}
    for name, rule in RULES.items():
        found = _ABSENT.fullmatch(rule["expr"]) or _EXPR.fullmatch(rule["expr"])
        assert found[1] in gauges, name
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["labels"]["severity"] in {"critical", "warning"}
    assert set(RULES) - set(STATES) == {"AuthorityAway", "AuditUnsigned", *ABOUT_ROOTS}


def test_metrics_are_for_who_has_the_token(quiet: Domain, settings: Any) -> None:
    browser = Client()
    settings.METRICS_TOKEN = ""
    assert browser.get("/metrics").status_code == 404
    settings.ENVIRONMENT = "development"
    assert browser.get("/metrics").status_code == 200
    assert browser.get("/metrics", headers={"X-Forwarded-For": "192.0.2.1"}).status_code == 404
    assert browser.get("/metrics", REMOTE_ADDR="192.0.2.1").status_code == 404
    settings.METRICS_TOKEN = "a token of theirs"
    assert browser.get("/metrics").status_code == 404
    assert browser.get("/metrics", headers={"Authorization": "Bearer x"}).status_code == 404
    found = browser.get("/metrics", headers={"Authorization": "Bearer a token of theirs"})
    assert found.status_code == 200
    assert found["Content-Type"].startswith("text/plain")
    assert "portcullis_authority_up 1\n" in found.content.decode()


def test_names_and_labels_are_written_as_prometheus_reads_them() -> None:
    gauge = Gauge("g", "what it is").add(1.5, domain='a"b\\c').add(2, domain="d")
    assert exposition([gauge]) == (
        '# HELP g what it is\n# TYPE g gauge\ng{domain="a\\"b\\\\c"} 1.5\ng{domain="d"} 2\n'
    )
