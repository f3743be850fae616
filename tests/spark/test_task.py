"""What a Celery worker does for a recompute, with Spark in this process and rows of both kinds."""

from __future__ import annotations

import secrets
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from django.db import connections
from django.db.models import F
from pyspark.sql import SparkSession

from adminapp.distribution import epochs, scopes, services
from adminapp.distribution.models import EncodedItem, EncodingEpoch, RecomputeJob
from adminapp.distribution.scopes import Scope
from adminapp.identity.models import Domain
from spark.jobs import recompute as pipeline
from spark.tables import SnapshotTable
from tasks import recompute
from tests.support.audiences import Plane, live_authority, plane
from tests.support.services import PostgreSQL
from tests.unit.distribution.conftest import heating, planes

__all__ = ["heating", "live_authority", "plane", "planes"]

pytestmark = [pytest.mark.spark, pytest.mark.django_db]


@pytest.fixture
def in_process(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> None:
    """Spark's process is replaced by the session that all tests share."""

    def run(_job: Any, folder: Any) -> None:
        password = folder.password if folder.password.exists() else None
        job = pipeline.Recompute(
            folder.snapshot, folder.output, folder.key, folder.progress, password
        )
        pipeline.run(job, lambda: spark)

    settings.VAR_DIR, settings.SPARK_THRESHOLD = tmp_path, 0
    monkeypatch.setattr(recompute, "_run_pipeline", run)


def ordered(domain: Domain, scope: Scope) -> RecomputeJob:
    before = EncodingEpoch.objects.get(domain=domain, state="current")
    epoch = epochs.open_next(domain, 1, "keys") if scope.everything else before
    return scopes.order(domain=domain, epoch=epoch, scope=scope, cause="keys")


def stored(epoch: EncodingEpoch) -> dict[int, bytes]:
    return {row.pk: bytes(row.encoded) for row in EncodedItem.objects.filter(epoch=epoch)}


def finish(job: RecomputeJob) -> None:
    """The run is done, nothing of it is left, and the compiler found nothing to encode anew."""
    job.refresh_from_db()
    assert job.state == "done", job.error
    assert not list((Path(recompute.settings.VAR_DIR) / "recompute").iterdir())
    before = stored(job.epoch)
    EncodingEpoch.objects.filter(pk=job.epoch_id, state="preparing").update(state="staged")
    Domain.objects.filter(pk=job.domain_id).update(revision=F("revision") + 1)
    services.compile_domain(job.domain_id)
    assert stored(job.epoch) == before


def test_rows_through_postgresql(
    plane: Plane,
    heating: Domain,
    in_process: None,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    postgresql: PostgreSQL,
) -> None:
    plane.settle()
    name = f"control{secrets.token_hex(4)}"
    postgresql.create(name)
    settings.SPARK_SOURCE = "jdbc"
    held = {
        "HOST": "127.0.0.1",
        "PORT": str(postgresql.port),
        "NAME": name,
        "USER": postgresql.user,
        "PASSWORD": postgresql.password,
    }
    there = SimpleNamespace(settings_dict=held, close=connections.close_all)
    monkeypatch.setattr(recompute, "connection", there)
    job = ordered(heating, scopes.EVERYTHING)
    written: list[SnapshotTable] = []
    table_of = recompute._table

    def noting(folder: Any) -> SnapshotTable:
        written.append(table_of(folder))
        return written[-1]

    monkeypatch.setattr(recompute, "_table", noting)
    recompute.run(job.pk, beat=lambda: None)
    assert written[0].name == f"portcullis_snapshot_{job.uid}"
    with psycopg.connect(postgresql.url(name)) as reader:
        left = reader.execute("SELECT 1 FROM pg_tables WHERE schemaname = 'public'").fetchall()
    assert left == []
    finish(job)


def test_rows_of_one_agent_through_files(plane: Plane, heating: Domain, in_process: None) -> None:
    plane.settle()
    epoch = EncodingEpoch.objects.get(domain=heating)
    before = stored(epoch)
    job = ordered(heating, scopes.of_agents(["alpha"]))
    recompute.run(job.pk, beat=lambda: None)
    finish(job)
    mine = EncodedItem.objects.filter(epoch=epoch, agent__name="alpha").count()
    assert job.rows_total == mine > 0
    assert len(set(stored(epoch).values()) - set(before.values())) == mine
