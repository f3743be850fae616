"""Principals from CSV files: what is taken, what is refused and why, and nothing half-done."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import Client, override_settings

from adminapp.audit.models import Entry
from adminapp.core.errors import Forbidden, InUse
from adminapp.identity import imports, services
from adminapp.identity.imports import file_of, refusals, report_of
from adminapp.identity.models import Domain, HomeAgent, Principal, PrincipalImport, User
from adminapp.outbox.models import OutboxRow
from adminapp.roles.models import Appointment
from adminapp.roles.selectors import active_roles
from tasks import handlers
from tests.support.control_plane import World, key

API = "/api/v1"
HEADER = "name,kind,agents,attribute.carrier,sealing_key,verify_key,appointments\n"
GOOD = (
    HEADER + f"Delta,subscriber,alpha; gamma,DL,{key(7)},{key(8)},licensed\n" + "Ann,person,,,,,\n"
)


def start(world: World, text: str | bytes, **more: Any) -> PrincipalImport:
    data = text.encode() if isinstance(text, str) else text
    values = {"actor": world.manager, "domain": world.flights, "enqueue": False, **more}
    return services.start_import(chunks=[data], **values)


def run(world: World, text: str | bytes, **more: Any) -> PrincipalImport:
    return services.run_import(actor=None, job=start(world, text, **more))


def refused(job: PrincipalImport) -> list[tuple[int, str, str]]:
    return [(each.line, each.column, each.reason) for each in refusals(job)]


def names() -> set[str]:
    return set(Principal.objects.values_list("name", flat=True)) - {"United", "JFK"}


def actions_since(entries: int) -> list[str]:
    return list(Entry.objects.order_by("sequence").values_list("action", flat=True)[entries:])


# -- what is taken ---------------------------------------------------------------------------


def test_a_good_file(world: World) -> None:
    revision = Domain.objects.get(pk=world.flights.pk).revision
    entries = Entry.objects.count()
    job = run(world, GOOD)
    assert (job.state, job.rows_done, job.rows_written, job.rows_refused) == ("done", 2, 2, 0)
    delta = Principal.objects.get(name="Delta")
    assert (delta.kind, delta.attributes, delta.sealing_key) == (
        "subscriber",
        {"carrier": "DL"},
        key(7),
    )
    homes = HomeAgent.objects.filter(principal=delta).values_list("overlay__name", "agent__name")
    assert dict(homes) == {"a": "alpha", "b": "gamma"}
    assert active_roles(delta)
    assert Appointment.objects.get(principal=delta).issuer == world.manager
    # An entry for the file, each principal and appointment and the end, one revision, and a file
    # that is gone.
    assert Domain.objects.get(pk=world.flights.pk).revision == revision + 1
    first, *written, last = actions_since(entries)
    assert (first, last) == ("import.started", "import.done")
    assert sorted(written) == ["appointment.given", "principal.created", "principal.created"]
    assert not file_of(job).exists()
    assert Domain.objects.get(pk=world.flights.pk).principal_count == 4


def test_the_document_is_that_of_one_made_by_hand(world: World) -> None:
    from adminapp.identity.documents import PRINCIPAL

    run(world, GOOD)
    before = PRINCIPAL.document(PRINCIPAL.find(world.flights, "Delta"))
    Principal.objects.filter(name="Delta").delete()
    PRINCIPAL.create(world.manager, world.flights, "Delta", before)
    assert PRINCIPAL.document(PRINCIPAL.find(world.flights, "Delta")) == before


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbfname,kind\r\nAnn,person\r\n",
        b"kind,name\nperson,Ann\n\n  ,\n",
        b'name,kind\n"Ann","person"',
        b"name,kind,attribute.carrier\nAnn,person,\n",
    ],
    ids=["byte order mark", "other order, empty lines", "quoted, no end of line", "empty cell"],
)
def test_files_as_programs_write_them(text: bytes, world: World) -> None:
    job = run(world, text)
    assert (job.state, names()) == ("done", {"Ann"}), refused(job)


def test_broker_agents_and_fallbacks(world: World) -> None:
    text = (
        "name,kind,broker,agents,fallbacks\n"
        "Relay,agent,beta,,\n"
        "Ann,person,,alpha,beta\n"
        "Two,agent,beta,,\n"
        "Bob,person,beta,,\n"
        "Eve,agent,,,\n"
        "Fay,person,,alpha,alpha\n"
        "Guy,person,,,beta\n"
        "Hal,person,,alpha;beta,\n"
    )
    job = run(world, text, mode="valid")
    assert names() == {"Relay", "Ann"}
    assert Principal.objects.get(name="Relay").verify_key == world.beta.verify_key
    assert HomeAgent.objects.get(principal__name="Ann").fallback == world.beta
    assert [(line, column) for line, column, _ in refused(job)] == [
        (4, "broker"),
        (5, "broker"),
        (6, "broker"),
        (7, "fallbacks"),
        (8, "fallbacks"),
        (9, "agents"),
    ]


# -- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "column", "reason"),
    [
        (",person,,,,,", "name", "empty"),
        ("-x,person,,,,,", "name", "use letters"),
        ('=HYPERLINK("x"),person,,,,,', "name", "use letters"),
        ("@SUM(A1),person,,,,,", "name", "use letters"),
        ("United,person,,,,,", "name", "already"),
        ("New,king,,,,,", "kind", "`king` is none of publisher"),
        ("New,,,,,,", "kind", "none of"),
        ("New,person,nowhere,,,,", "agents", "there is no agent `nowhere`"),
        ("New,person,alpha;beta,,,,", "agents", "not two"),
        ("New,person,,XX,,,", "attribute.carrier", "outside the domain"),
        ('New,person,,"=cmd|1",,,', "attribute.carrier", "formula"),
        ("New,person,,+cmd,,,", "attribute.carrier", "formula"),
        (f"New,person,,,{key(1)},,", "verify_key", "missing"),
        ("New,person,,,short,short,", "verify_key", "base64url"),
        ("New,person,,,,,no name", "appointments", "no name of an appointment"),
        ("New,person,,,,,,more", "", "8 cells for 7 columns"),
        ('New,"per"son,,,,,', "", "quotation mark"),
        (f"New,person,,{'x' * 70_000},,,", "attribute.carrier", "at most 65536"),
        (f'New,person,,"{"x" * 140_000}",,,', "", "too long"),
        ('New,person,"alpha', "", "not closed"),
        ("New,person\x00,,,,,", "kind", "null character"),
    ],
)
def test_a_refused_row_says_where_and_why(row: str, column: str, reason: str, world: World) -> None:
    job = run(world, f"{HEADER}Good,person,,,,,\n{row}")
    assert job.state == "refused"
    ((line, where, why),) = refused(job)
    assert (line, where) == (3, column)
    assert reason in why
    assert names() == set()


def test_a_row_with_many_mistakes_names_them_all(world: World) -> None:
    job = run(world, HEADER + "-,king,nowhere,XX,short,short,a b\n")
    assert job.rows_refused == 1
    assert [column for _, column, _ in refused(job)] == [
        "name",
        "kind",
        "attribute.carrier",
        "verify_key",
        "agents",
        "appointments",
    ]


def test_doubled_names_name_the_first(world: World) -> None:
    job = run(world, "name,kind\nAnn,person\nBob,person\nAnn,person\n")
    assert refused(job) == [(4, "name", "`Ann` stands in line 2 already")]


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        (b"", "", "must name the columns"),
        (b"\n\n", "", "must name the columns"),
        (b"name;kind\nAnn;person\n", "", "commas"),
        (b"name,kind,password\n", "password", "there is no such column"),
        (b"name,kind,name\n", "name", "twice"),
        ("name,kind\nAnn,person\n".encode("utf-16"), "", "UTF-16"),
        (b"name,kind,attribute.\n", "attribute.", "no such column"),
        (b"name,kind," + b"x" * 200_000, "", "header cannot be read"),
        (b"name,k\xffnd\n", "k\N{REPLACEMENT CHARACTER}nd", "not UTF-8"),
    ],
)
def test_files_that_are_no_table(text: bytes, column: str, reason: str, world: World) -> None:
    job = run(world, text)
    assert job.state == "refused"
    ((line, where, why),) = refused(job)
    assert (line, where) == (1, column)
    assert reason in why
    assert reason in job.error


def test_another_encoding_is_told_by_row(world: World) -> None:
    text = "name,kind,attribute.carrier\nAnn,person,\nBob,person,Zürich\n".encode("latin-1")
    job = run(world, text, mode="valid")
    assert refused(job) == [
        (3, "attribute.carrier", "this is not UTF-8; save the file as CSV in UTF-8")
    ]
    assert names() == {"Ann"}


def test_rows_after_a_broken_one_are_read(world: World) -> None:
    job = run(world, 'name,kind\n"An"n,person\nBob,person\n', mode="valid")
    assert [line for line, _, _ in refused(job)] == [2]
    assert names() == {"Bob"}


# -- all or the good ones --------------------------------------------------------------------


def test_one_refused_row_stops_all(world: World) -> None:
    revision, entries = Domain.objects.get(pk=world.flights.pk).revision, Entry.objects.count()
    job = run(world, GOOD + "Bad,king,,,,,\n")
    assert (job.state, job.rows_written, job.rows_refused) == ("refused", 0, 1)
    assert names() == set()
    assert Domain.objects.get(pk=world.flights.pk).revision == revision
    assert actions_since(entries) == ["import.started", "import.refused"]


def test_the_good_rows_alone(world: World) -> None:
    job = run(world, GOOD + "Bad,king,,,,,\n", mode="valid")
    assert (job.state, job.rows_written, job.rows_refused) == ("done", 2, 1)
    assert names() == {"Ann", "Delta"}


def test_a_dry_run_writes_nothing(world: World) -> None:
    good = run(world, GOOD, dry_run=True)
    bad = run(world, GOOD + "Bad,king,,,,,\n", dry_run=True, mode="valid")
    assert (good.state, bad.state) == ("done", "refused")
    assert names() == set()


def test_over_quota_nothing_is_written(world: World) -> None:
    services.update_domain(actor=world.operator, domain=world.flights, data={"max_principals": 3})
    entries = Entry.objects.count()
    job = run(world, GOOD)
    assert job.state == "refused"
    assert "3 principals" in job.error
    assert names() == set()
    assert actions_since(entries) == ["import.started", "import.refused"]


# -- in between ------------------------------------------------------------------------------


def test_a_domain_that_changes_meanwhile_is_checked_again(world: World) -> None:
    job = start(world, GOOD)
    seen: list[str] = []

    def beat(held: PrincipalImport) -> None:
        seen.append(held.state)
        if seen.count("writing") == 1:  # after the check, before the change
            services.create_principal(
                actor=world.manager, domain=world.flights, name="Ann", kind="service"
            )

    services.run_import(actor=None, job=job, beat=beat)
    assert job.state == "refused"
    assert [why for _, _, why in refused(job)] == ["the domain has a principal `Ann` already"]
    assert names() == {"Ann"}


def test_who_lost_the_domain_meanwhile_writes_nothing(world: World) -> None:
    job = start(world, GOOD)
    services.set_membership(
        actor=world.operator, user=world.manager, domain=world.flights, role="auditor"
    )
    services.run_import(actor=None, job=job)
    assert (job.state, names()) == ("refused", set())
    assert "managers" in job.error


def test_a_worker_that_dies_is_followed_by_another(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = start(world, GOOD)

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(imports, "_end", die)
        with pytest.raises(KeyboardInterrupt):
            services.run_import(actor=None, job=job)
    assert names() == set()
    job.refresh_from_db()
    assert job.state == "writing"
    services.run_import(actor=None, job=job)
    assert (job.state, names()) == ("done", {"Ann", "Delta"})
    services.run_import(actor=None, job=job)  # and a third has nothing to do
    assert Principal.objects.count() == 4


def test_cancelling(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    job = start(world, GOOD)
    with pytest.raises(Forbidden):
        services.cancel_import(actor=world.auditor, job=job)
    services.cancel_import(actor=world.manager, job=job)
    services.run_import(actor=None, job=job)
    assert (job.state, names(), file_of(job).exists()) == ("cancelled", set(), False)
    with pytest.raises(InUse, match="cannot be stopped"):
        services.cancel_import(actor=world.manager, job=job)
    # In the middle of the check, too.
    monkeypatch.setattr(imports, "STEP", 1)
    other = start(world, GOOD)

    def stop(held: PrincipalImport) -> None:
        if held.state == "checking":
            services.cancel_import(actor=world.manager, job=PrincipalImport.objects.get(pk=held.pk))

    services.run_import(actor=None, job=other, beat=stop)
    assert (other.state, names()) == ("cancelled", set())


def test_the_outbox_works_on_it(world: World) -> None:
    job = start(world, GOOD, enqueue=True)
    assert handlers.work(f"import:{job.uid}", sender=pytest.fail)
    job.refresh_from_db()
    assert (job.state, names()) == ("done", {"Ann", "Delta"})
    assert OutboxRow.objects.get(key=f"import:{job.uid}").state == "done"


def test_old_imports_are_forgotten(world: World) -> None:
    job = run(world, GOOD)
    assert services.prune_imports(actor=None) == 0
    PrincipalImport.objects.update(finished=job.finished - django_settings.IMPORTS_KEPT * 2)
    assert services.prune_imports(actor=None) == 1
    assert not report_of(job).exists()


# -- the command -----------------------------------------------------------------------------


def test_the_command(world: World, tmp_path: Any) -> None:
    file = tmp_path / "people.csv"
    file.write_text(GOOD + "Bad,king,,,,,\n")
    out = io.StringIO()
    with pytest.raises(CommandError, match="nothing was written"):
        call_command("import_principals", str(file), domain="flights", stdout=out)
    assert "line 4, kind: `king` is none of" in out.getvalue()
    assert names() == set()
    call_command("import_principals", str(file), domain="flights", mode="valid", stdout=out)
    assert "3 rows, 1 refused, 2 written" in out.getvalue()
    assert Entry.objects.filter(action="principal.created").latest("sequence").source == "command"
    for arguments, reason in (
        ({"domain": "nowhere"}, "no domain"),
        ({"domain": "flights", "file": tmp_path / "none"}, "cannot be read"),
    ):
        path = arguments.pop("file", file)
        with pytest.raises(CommandError, match=reason):
            call_command("import_principals", str(path), **arguments)


# -- REST ------------------------------------------------------------------------------------


def post(browser: Client, text: str, query: str = "domain=flights") -> Any:
    return browser.post(f"{API}/principals/import?{query}", text, "text/csv")


def test_every_standing(world: World, browsers: dict[str, Client], delegate: User) -> None:
    browsers["delegate"] = Client()
    browsers["delegate"].force_login(
        delegate, backend="adminapp.identity.backends.ThrottledBackend"
    )
    expected = {
        "anonymous": 401,
        "stranger": 404,
        "auditor": 403,
        "delegate": 403,
        "manager": 202,
        "operator": 202,
    }
    answers = {name: post(browsers[name], GOOD) for name in expected}
    assert {name: answer.status_code for name, answer in answers.items()} == expected
    place = answers["manager"]["Location"]
    seen = {**expected, "manager": 200, "operator": 200, "auditor": 200, "delegate": 200}
    assert {name: browsers[name].get(place).status_code for name in seen} == seen
    reports = {name: browsers[name].get(f"{place}/report").status_code for name in seen}
    assert reports == seen
    stops = {
        name: browsers[name].post(f"{place}/cancel").status_code
        for name in ("anonymous", "stranger", "auditor", "delegate", "manager")
    }
    assert stops == {**{n: c for n, c in expected.items() if n in stops}, "manager": 200}
    listed = browsers["auditor"].get(f"{API}/principal-imports", {"state": "cancelled"}).json()
    assert [each["user"] for each in listed["results"]] == ["mona"]
    assert not browsers["stranger"].get(f"{API}/principal-imports").json()["results"]


def test_from_upload_to_report(world: World, browsers: dict[str, Client]) -> None:
    manager = browsers["manager"]
    file = SimpleUploadedFile("people.csv", (GOOD + "Bad,=king,,,,,\n").encode(), "text/csv")
    answer = manager.post(f"{API}/principals/import?domain=flights&mode=valid", {"file": file})
    assert answer.status_code == 202, answer.content
    assert answer.json()["state"] == "waiting"
    (row,) = OutboxRow.objects.filter(topic="import")
    handlers.work(row.key, sender=pytest.fail)
    shown = manager.get(answer["Location"]).json()
    assert (shown["state"], shown["rows_written"], shown["rows_refused"]) == ("done", 2, 1)
    report = manager.get(f"{answer['Location']}/report")
    (line,) = b"".join(report.streaming_content).decode().splitlines()
    assert json.loads(line)["line"] == 4
    table = manager.get(f"{answer['Location']}/report", {"layout": "csv"})
    assert table["Content-Type"].startswith("text/csv")
    lines = b"".join(table.streaming_content).decode().splitlines()
    assert lines[0] == "line,column,reason"
    assert lines[1].startswith("4,kind,")


@pytest.mark.parametrize(
    ("query", "code", "pointer"),
    [
        ("", 400, "/domain"),
        ("domain=flights&mode=some", 400, "/mode"),
        ("domain=flights&dry_run=perhaps", 400, "/dry_run"),
        ("domain=nowhere", 404, None),
    ],
)
def test_wrong_questions(
    query: str, code: int, pointer: str | None, world: World, browsers: dict[str, Client]
) -> None:
    answer = post(browsers["manager"], GOOD, query)
    assert answer.status_code == code
    if pointer:
        assert answer.json()["errors"][0]["pointer"] == pointer
    assert not PrincipalImport.objects.exists()


def test_files_that_are_too_large_leave_nothing(world: World, browsers: dict[str, Client]) -> None:
    folder = django_settings.IMPORT_DIR
    before = set(folder.glob("*")) if folder.exists() else set()
    with override_settings(IMPORT_LIMIT=100):
        answer = post(browsers["manager"], GOOD * 10)
    assert answer.status_code == 413
    assert not PrincipalImport.objects.exists()
    assert (set(folder.glob("*")) if folder.exists() else set()) == before
    claimed = browsers["manager"].generic(
        "POST",
        f"{API}/principals/import?domain=flights",
        GOOD,
        "text/csv",
        headers={"Content-Length": str(2**40)},
    )
    assert claimed.status_code == 413


def test_bodies_that_are_no_file(world: World, browsers: dict[str, Client]) -> None:
    url = f"{API}/principals/import?domain=flights"
    assert browsers["manager"].post(url, {"a": 1}, "application/json").status_code == 415
    assert browsers["manager"].post(url, {"other": "x"}).status_code == 400
    assert not PrincipalImport.objects.exists()
