"""The pages of imports: a file is sent, checked, and what was refused is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from adminapp.identity import services
from adminapp.identity.models import Principal, PrincipalImport
from tests.support.control_plane import World

pytestmark = pytest.mark.django_db
PAGE = "/d/flights/imports/"
GOOD = "name,kind,agents,attribute.carrier\nDelta,subscriber,alpha,DL\n"
BAD = GOOD + "United,subscriber,alpha,UA\n"


@pytest.fixture(autouse=True)
def _folder(settings: Any, tmp_path: Path) -> None:
    settings.IMPORT_DIR = tmp_path / "imports"


def sent(text: str, **more: Any) -> dict[str, Any]:
    file = SimpleUploadedFile("people.csv", text.encode(), content_type="text/csv")
    return {"file": file, "mode": "all", **more}


def job() -> PrincipalImport:
    return PrincipalImport.objects.get()


def test_a_good_file_is_written(world: World, browsers: dict[str, Client]) -> None:
    manager = browsers["manager"]
    assert "Send a file" in manager.get(PAGE).content.decode()
    assert f'href="{PAGE}"' in manager.get("/d/flights/principals/").content.decode()
    done = manager.post(f"{PAGE}new/", sent(GOOD))
    assert (done.status_code, done["Location"]) == (302, f"{PAGE}{job().pk}/")
    waits = manager.get(done["Location"]).content.decode()
    assert 'hx-trigger="every 3s"' in waits
    assert "Stop it" in waits
    services.run_import(actor=None, job=job())
    assert Principal.objects.filter(name="Delta", domain=world.flights).exists()
    after = manager.get(done["Location"]).content.decode()
    assert "hx-trigger" not in after.split("<main", 1)[1]
    assert f"Import {job().pk}" in browsers["auditor"].get(PAGE).content.decode()


def test_what_was_refused_is_told(world: World, browsers: dict[str, Client]) -> None:
    browsers["manager"].post(f"{PAGE}new/", sent(BAD))
    services.run_import(actor=None, job=job())
    assert not Principal.objects.filter(name="Delta").exists()
    place = f"{PAGE}{job().pk}/"
    page = browsers["auditor"].get(place).content.decode()
    assert '<th scope="row" class="num">3</th>' in page
    answer = browsers["auditor"].get(f"{place}report.csv")
    lines = b"".join(answer.streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert lines[0] == "line,column,reason"
    assert lines[1].startswith("3,")


def test_a_file_is_only_checked(world: World, browsers: dict[str, Client]) -> None:
    browsers["manager"].post(f"{PAGE}new/", sent(GOOD, dry_run="on"))
    services.run_import(actor=None, job=job())
    assert (job().state, job().rows_done) == ("done", 1)
    assert not Principal.objects.filter(name="Delta").exists()
    assert "only checked" in browsers["manager"].get(PAGE).content.decode()


def test_an_import_is_stopped(world: World, browsers: dict[str, Client]) -> None:
    browsers["manager"].post(f"{PAGE}new/", sent(GOOD))
    place = f"{PAGE}{job().pk}/stop/"
    assert browsers["auditor"].post(place).status_code == 403
    browsers["manager"].post(place)
    assert job().state == "cancelled"
    again = browsers["manager"].post(place, follow=True).content.decode()
    assert "cannot be stopped" in again


def test_what_is_no_file_is_refused(
    world: World, browsers: dict[str, Client], settings: Any
) -> None:
    manager = browsers["manager"]
    assert manager.post(f"{PAGE}new/", {"mode": "all"}).status_code == 422
    assert manager.post(f"{PAGE}new/", sent(GOOD, mode="some")).status_code == 422
    settings.IMPORT_LIMIT = 10
    large = manager.post(f"{PAGE}new/", sent(GOOD))
    assert (large.status_code, "too large" in large.content.decode()) == (422, True)
    assert not PrincipalImport.objects.exists()


def test_imports_of_others_are_not_there(world: World, browsers: dict[str, Client]) -> None:
    browsers["manager"].post(f"{PAGE}new/", sent(GOOD))
    for address in (PAGE, f"{PAGE}{job().pk}/", f"{PAGE}{job().pk}/report.csv"):
        assert browsers["stranger"].get(address).status_code == 404
        assert browsers["anonymous"].get(address).status_code == 302
    # Nor under another domain.
    assert browsers["operator"].get(f"/d/heating/imports/{job().pk}/").status_code == 404
    assert browsers["auditor"].post(f"{PAGE}new/", sent(GOOD)).status_code == 403
