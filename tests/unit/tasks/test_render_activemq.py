"""ActiveMQ's configuration as the administration model has it."""

from __future__ import annotations

import os
import re
import stat
import xml.etree.ElementTree as ET
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from adminapp.distribution.standing import Standing, StandingAgent, StandingClient, standing
from adminapp.identity import guests
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Domain, Principal
from tasks.activemq.names import UnusableNameError, java_name
from tasks.activemq.render import Settings, render
from tasks.activemq.rights import control_rights, overlay_rights
from tests.support.control_plane import World, key

CORE = "{http://activemq.apache.org/schema/core}"


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("render_activemq", *arguments, stdout=out, stderr=out)
    return out.getvalue()


@pytest.fixture
def enrolled(world: World) -> World:
    for number, principal in enumerate((world.united, world.airport)):
        identity.register_credentials(
            actor=None,
            principal=principal,
            sealing_key=key(10 + number),
            verify_key=key(20 + number),
        )
    return world


def properties(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def entries(path: Path) -> dict[str, dict[str, set[str]]]:
    """Queue -> right -> groups; every test of a file checks that it is well-formed too."""
    tree = ET.parse(path)
    return {
        entry.get("queue", ""): {
            right: set(filter(None, entry.get(right, "").split(",")))
            for right in ("read", "write", "admin")
        }
        for entry in tree.iter(f"{CORE}authorizationEntry")
        if entry.get("queue")
    }


def may(folder: Path, right: str) -> dict[str, set[str]]:
    """User -> queues, through its groups: an independent reading of the three files."""
    groups = {
        name: users.split(",") for name, users in properties(folder / "groups.properties").items()
    }
    found: dict[str, set[str]] = {}
    for queue, rights in entries(folder / "activemq.xml").items():
        for group in rights[right]:
            for user in groups.get(group, ()):
                found.setdefault(user, set()).add(queue)
    return found


def test_everybody_may_do_what_the_protocol_needs_and_no_more(
    enrolled: World, tmp_path: Path
) -> None:
    run("a", "--out", str(tmp_path))
    united, airport = enrolled.united.handle, enrolled.airport.handle
    reads, writes = may(tmp_path, "read"), may(tmp_path, "write")
    assert reads == {
        "agent.alpha": {
            "pc.in.alpha.flights", "pc.hop.alpha.flights", "pc.again.alpha.flights",
            "pc.dead.alpha", f"pc.back.alpha.flights.{united}", f"pc.back.alpha.flights.{airport}",
        },
        "agent.beta": {"pc.dead.beta"},
        f"client.{united}": {f"pc.deliver.{united}"},
        f"client.{airport}": {f"pc.deliver.{airport}"},
        "control": {"DLQ.>"},
    }  # fmt: skip
    assert writes == {
        "agent.alpha": {
            "pc.hop.alpha.flights", "pc.again.alpha.flights", "pc.dead.alpha",
            f"pc.deliver.{united}", f"pc.deliver.{airport}",
            f"pc.back.alpha.flights.{united}", f"pc.back.alpha.flights.{airport}",
        },
        "agent.beta": {"pc.dead.beta"},
        f"client.{united}": {"pc.in.alpha.flights"},
        f"client.{airport}": {"pc.in.alpha.flights"},
        "control": {"DLQ.>"},
    }  # fmt: skip
    users = properties(tmp_path / "users.properties")
    assert users["agent.alpha"] == "CN=alpha, OU=agents"
    assert users[f"client.{united}"] == f"CN={united}, OU=clients"
    assert "agent.gamma" not in users


def test_the_control_broker_has_everybody_and_the_control_queues_alone(
    enrolled: World, tmp_path: Path
) -> None:
    run("control", "--out", str(tmp_path), "--suffix", "O=Airport Co,C=US")
    united = enrolled.united.handle
    reads, writes = may(tmp_path, "read"), may(tmp_path, "write")
    assert reads[f"client.{united}"] == {f"pc.control.client.{united}"}
    assert reads["agent.gamma"] == {"pc.control.agent.gamma"}
    assert writes["agent.gamma"] == writes[f"client.{united}"] == {"pc.requests"}
    assert reads["control"] == {"pc.requests", "DLQ.>"}
    assert {"pc.control.agent.gamma", f"pc.control.client.{united}"} < writes["control"]
    assert not [queue for queue in entries(tmp_path / "activemq.xml") if ".in." in queue]
    users = properties(tmp_path / "users.properties")
    assert users["control"] == "CN=control, OU=control, O=Airport Co, C=US"


def test_an_overlays_broker_may_carry_the_control_queues_too(
    enrolled: World, tmp_path: Path
) -> None:
    run("a", "--out", str(tmp_path), "--with-control")
    queues = set(entries(tmp_path / "activemq.xml"))
    assert {"pc.requests", "pc.control.agent.gamma", "pc.in.alpha.flights"} < queues
    assert "pc.in.gamma.flights" not in queues


def test_no_agent_or_client_has_a_wildcard(enrolled: World, tmp_path: Path) -> None:
    run("a", "--out", str(tmp_path), "--with-control")
    for queue, rights in entries(tmp_path / "activemq.xml").items():
        if re.search(r"[*>,]", queue):
            assert rights == {right: {"control"} for right in ("read", "write", "admin")}


def test_only_what_changed_is_written_and_check_says_what_differs(
    enrolled: World, tmp_path: Path
) -> None:
    with pytest.raises(CommandError) as nothing:
        run("a", "--out", str(tmp_path), "--check")
    assert nothing.value.returncode == 3
    assert list(tmp_path.iterdir()) == []
    run("a", "--out", str(tmp_path))
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))  # whatever is written from now on is of another time
    assert stat.S_IMODE((tmp_path / "activemq.xml").stat().st_mode) & 0o007 == 0
    assert "as the model has it" in run("a", "--out", str(tmp_path))
    assert "as the model has it" in run("a", "--out", str(tmp_path), "--check")
    assert {path.stat().st_mtime_ns for path in tmp_path.iterdir()} == {0}
    Principal.objects.filter(pk=enrolled.united.pk).update(state=Principal.State.REVOKED)
    with pytest.raises(CommandError, match="not as the model has it"):
        run("a", "--out", str(tmp_path), "--check")
    text = run("a", "--out", str(tmp_path))
    assert "users.properties: written" in text
    assert "login.config" not in text
    assert "has to be started anew" in text
    assert "started anew" not in run("a", "--out", str(tmp_path / "new"))


def test_who_is_banned_or_revoked_is_nowhere_in_the_files(enrolled: World, tmp_path: Path) -> None:
    united = enrolled.united.handle
    run("a", "--out", str(tmp_path))
    assert united in (tmp_path / "groups.properties").read_text()
    Principal.objects.filter(pk=enrolled.united.pk).update(state=Principal.State.REVOKED)
    Agent.objects.filter(pk=enrolled.beta.pk).update(state=Agent.State.BANNED)
    run("a", "--out", str(tmp_path))
    run("control", "--out", str(tmp_path / "control"))
    for folder in (tmp_path, tmp_path / "control"):
        for name in ("activemq.xml", "users.properties", "groups.properties"):
            text = (folder / name).read_text()
            assert united not in text
            assert "beta" not in text
            assert enrolled.airport.handle in text


def test_wrong_options_are_refused(enrolled: World, tmp_path: Path) -> None:
    for arguments, words in (
        (("nowhere",), "no overlay `nowhere`"),
        (("a", "--port", "0"), "port 0"),
        (("a", "--store-mb", "1"), "128 megabytes"),
        (("a", "--connections", "0"), "one connection"),
        (("a", "--host", 'x"/>'), "not an address"),
        (("a", "--suffix", "O=a+b"), "read otherwise"),
    ):
        with pytest.raises(CommandError, match=re.escape(words)):
            run(*arguments, "--out", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_runtime_configuration_is_an_option(enrolled: World, tmp_path: Path) -> None:
    run("a", "--out", str(tmp_path))
    assert "runtimeConfigurationPlugin" not in (tmp_path / "activemq.xml").read_text()
    text = run("a", "--out", str(tmp_path), "--runtime-configuration")
    assert "runtimeConfigurationPlugin" in (tmp_path / "activemq.xml").read_text()
    assert "started anew" not in text


def test_what_stands_at_a_broker_is_what_the_model_says(enrolled: World) -> None:
    found = standing()
    assert [(one.name, one.overlay, one.domains) for one in found.agents] == [
        ("alpha", "a", ("flights",)),
        ("beta", "a", ()),
        ("gamma", "b", ("flights",)),
    ]
    assert {(one.handle, one.homes) for one in found.clients} == {
        (row.handle, (("a", "alpha"), ("b", "gamma")))
        for row in (enrolled.united, enrolled.airport)
    }


def test_guests_publish_abroad_through_their_home_agent(
    enrolled: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = Domain.objects.exclude(pk=enrolled.airport.domain_id).first() or Domain.objects.create(
        name="abroad"
    )
    visitors = Principal.objects.filter(pk=enrolled.airport.pk)
    source = guests._Source(
        lambda one: visitors if one == domain else Principal.objects.none(), lambda _: set()
    )
    monkeypatch.setattr(guests, "_sources", [source])
    visits = {one.handle: one.visits for one in standing().clients}
    assert visits == {enrolled.airport.handle: (domain.name,), enrolled.united.handle: ()}


def test_a_guest_may_use_the_queues_of_domains_that_its_home_serves() -> None:
    agents = (
        StandingAgent("alpha", "a", ("flights", "heating")),
        StandingAgent("beta", "a", ("flights", "heating", "stocks")),
    )
    homes = (("a", "alpha"),)
    guest = StandingClient("p-1", "", "flights", homes, ("heating", "stocks"))
    rights = overlay_rights(Standing(agents, (guest, client("p-2"))), "a")
    assert rights.groups["homed.alpha.flights"] == {"client.p-1", "client.p-2"}
    assert rights.groups["homed.alpha.heating"] == {"client.p-1"}
    assert not any("client.p-1" in rights.groups[f"homed.beta.{one}"] for one in agents[1].domains)
    assert "homed.alpha.stocks" not in rights.groups


def test_a_second_agent_may_serve_and_be_asked() -> None:
    agents = tuple(StandingAgent(name, "a", ("flights",)) for name in ("alpha", "beta", "delta"))
    homes, seconds = (("a", "alpha"),), (("a", "beta"),)
    moving = StandingClient("p-1", "", "flights", homes, seconds=seconds)
    rights = overlay_rights(Standing(agents, (moving,)), "a")
    assert rights.groups["serving.p-1"] == {"agent.alpha", "agent.beta"}
    assert rights.groups["homed.alpha.flights"] == {"client.p-1"}
    assert rights.groups["homed.beta.flights"] == {"client.p-1"}
    assert rights.groups["homed.delta.flights"] == set()


def client(handle: str, subject: str = "") -> StandingClient:
    return StandingClient(handle, subject, "flights", (("a", "alpha"),))


def people(*clients: StandingClient) -> Standing:
    return Standing((StandingAgent("alpha", "a", ("flights",)),), clients)


@pytest.mark.parametrize(
    "subject",
    [
        "CN=alpha,OU=agents",
        "CN=p-2,OU=clients",
        "CN=control,OU=control",
        "CN=one,OU=comparators",
        "1.2.840.113549.1.9.1=a@b.c,CN=x",
        r"CN=a\,b",
        "CN=a+OU=b",
        'CN="a"',
        "CN=#04",
        "CN=a  b",
        "CN= a",
        "CN=a\nagent.alpha=CN=x",
        "/.*/",
        "CN=",
        "CN=" + "a" * 1000,
    ],
)
def test_certificates_that_could_pass_for_others_let_nobody_in(subject: str) -> None:
    rights = overlay_rights(people(client("p-1", subject)), "a")
    assert "client.p-1" not in rights.users
    assert set(rights.left_out) == {"p-1"}
    text = render(Settings("a"), rights)
    assert "client.p-1" not in text["users.properties"] + text["groups.properties"]


def test_a_name_in_two_certificates_lets_neither_in() -> None:
    both = people(client("p-1", "CN=x,O=y"), client("p-2", "CN=x, O=y"), client("p-3"))
    rights = control_rights(both)
    assert set(rights.left_out) == {"p-1", "p-2"}
    assert "client.p-3" in rights.users


def test_a_registered_certificate_is_the_one_that_lets_in() -> None:
    rights = overlay_rights(people(client("p-1", "CN=Zoë O'Neil (ops),O=a.b,C=IE")), "a")
    assert rights.users["client.p-1"] == "CN=Zoë O'Neil (ops), O=a.b, C=IE"
    files = render(Settings("a"), rights)
    assert r"client.p-1=CN=Zo\u00eb O'Neil (ops), O=a.b, C=IE" in files["users.properties"]


def test_java_writes_names_with_blanks_after_commas() -> None:
    assert java_name("CN=a,O=b c,DC=x") == "CN=a, O=b c, DC=x"
    with pytest.raises(UnusableNameError):
        java_name("")


def test_comparators_have_the_control_queues_alone() -> None:
    everybody = replace(people(client("p-1")), comparators=("beside",))
    rights = control_rights(everybody, overlay="a")
    assert rights.users["comparator.beside"] == "CN=beside, OU=comparators"
    mine = {
        entry.queue
        for entry in rights.entries
        if {"comparator.beside", "comparators"} & {*entry.read, *entry.write}
    }
    assert mine == {"pc.requests", "pc.control.comparator.beside"}
    (own,) = [one for one in rights.entries if one.queue == "pc.control.comparator.beside"]
    assert (own.read, own.write) == (("comparator.beside",), ("control",))
    assert not any("beside" in user for user in overlay_rights(everybody, "a").users)


# -- who enrolled ----------------------------------------------------------------------------

ENROLLED = "0f" * 16


def users_of(found: Standing, suffix: str = "") -> dict[str, str]:
    return overlay_rights(found, "a", suffix=suffix).users


def test_who_enrolled_signs_in_by_the_name_that_its_keys_have() -> None:
    of_agent = f"CN=alpha, OU=agents, UID={ENROLLED}"
    of_client = f"CN=p-1, OU=clients, UID={ENROLLED}"
    homes = (("a", "alpha"),)
    found = Standing(
        (
            StandingAgent("alpha", "a", ("flights",), of_agent),
            StandingAgent("beta", "a", ("flights",)),
        ),
        (
            StandingClient("p-1", "", "flights", homes, subject=of_client),
            StandingClient("p-2", "", "flights", homes),
        ),
    )
    users = users_of(found, "O=Example")
    assert users["agent.alpha"] == of_agent
    assert users["client.p-1"] == of_client
    # Those of the release before, and those whom the operator's own authority certifies.
    assert users["agent.beta"] == "CN=beta, OU=agents, O=Example"
    assert users["client.p-2"] == "CN=p-2, OU=clients, O=Example"


def test_nobody_registers_a_name_of_the_enrolment() -> None:
    stolen = f"CN=alpha,OU=agents,UID={ENROLLED}"
    found = Standing(
        (StandingAgent("alpha", "a", ("flights",)),),
        (StandingClient("p-1", stolen, "flights", (("a", "alpha"),)),),
    )
    rights = overlay_rights(found, "a")
    assert "client.p-1" not in rights.users
    assert "kept for somebody else" in rights.left_out["p-1"]


def test_a_banned_agent_is_no_user(enrolled: World, tmp_path: Path) -> None:
    run("a", "--out", str(tmp_path))
    assert "agent.alpha" in properties(tmp_path / "users.properties")
    identity.set_agent_state(actor=None, agent=enrolled.alpha, state="banned")
    run("a", "--out", str(tmp_path))
    assert "agent.alpha" not in properties(tmp_path / "users.properties")
    assert "agent.alpha" not in (tmp_path / "groups.properties").read_text()
