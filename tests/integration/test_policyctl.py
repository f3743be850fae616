"""The same scenarios against the application in this process and behind a real server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from brokers.policyctl.api import Api
from brokers.policyctl.config import Target
from brokers.policyctl.errors import Exit, Stop
from brokers.policyctl.http import Call, HttpTransport, Transport
from tests.support.policyctl import Ended, policyctl
from tests.support.policyctl_site import InProcess, seed, served
from tests.support.ports import free_port

Tool = Callable[..., Ended]
Open = Callable[[str], Transport]


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    with served(tmp_path_factory.mktemp("site")) as (_process, address, tokens):
        yield address, tokens


@pytest.fixture(params=["inside", "outside"])
def transport(request: pytest.FixtureRequest, db: None) -> Open:
    """Opens a transport with the token of somebody."""
    if request.param == "inside":
        tokens = seed()
        return lambda who: InProcess(tokens.get(who, who))
    address, given = request.getfixturevalue("outside")
    return lambda who: HttpTransport(Target(address, given.get(who, who)))


@pytest.fixture
def tool(transport: Open) -> Tool:
    def run(*words: str, who: str = "manager") -> Ended:
        return policyctl(*words, transport=transport(who))

    return run


def test_a_model_goes_out_is_changed_and_comes_back(tool: Tool, tmp_path: Path) -> None:
    file, again = tmp_path / "flights.yaml", tmp_path / "again.yaml"
    assert tool("export", "flights", "-f", str(file)).code == Exit.OK
    before = file.read_bytes()
    assert tool("plan", str(file)).code == Exit.OK
    assert tool("plan", "--whole", str(file)).code == Exit.OK
    documents = list(yaml.safe_load_all(before))
    (role,) = [each for each in documents if each["object"] == "role"]
    role["title"] = "Airlines"
    file.write_text(yaml.safe_dump_all(documents, sort_keys=False))
    planned = tool("plan", str(file))
    assert planned.code == Exit.PENDING
    assert "~ flights: role airline" in planned.out
    assert tool("export", "flights").out.encode() == before
    applied = tool("apply", "-y", "-m", "a better name", str(file))
    assert applied.code == Exit.OK, applied
    assert "1 updated" in applied.out
    assert tool("plan", str(file)).code == Exit.OK
    listed = tool("audit", "list", "--domain", "flights", "--limit", "1", "-o", "json").json()
    assert (listed[0]["action"], listed[0]["object_name"]) == ("role.updated", "airline")
    again.write_bytes(before)
    assert tool("apply", "-y", str(again)).code == Exit.OK
    assert tool("export", "flights").out.encode() == before


def test_what_files_leave_out_goes_only_when_they_are_all(tool: Tool, tmp_path: Path) -> None:
    file = tmp_path / "flights.yaml"
    documents = list(yaml.safe_load_all(tool("export", "flights").out))
    kept = [each for each in documents if each["object"] != "policy"]
    file.write_text(yaml.safe_dump_all(kept, sort_keys=False))
    assert tool("plan", str(file)).code == Exit.OK
    planned = tool("plan", "--whole", "-o", "json", str(file))
    assert planned.code == Exit.PENDING
    (change,) = planned.json()["changes"]
    assert (change["kind"], change["key"], change["op"]) == ("policy", "airlines read", "delete")
    assert planned.json()["effects"]["lost"] == 1


def test_a_second_person_is_asked(tool: Tool, tmp_path: Path) -> None:
    file = tmp_path / "careful.yaml"
    file.write_text("object: event-type\ndomain: careful\nname: Thing\n")
    assert tool("plan", str(file)).code == Exit.PENDING
    ended = tool("apply", "-y", str(file))
    assert ended.code == Exit.WAITING, ended
    assert "waits for a second person" in ended.out
    assert "Thing" not in tool("export", "careful").out


def test_who_may_not(tool: Tool, tmp_path: Path) -> None:
    file = tmp_path / "flights.yaml"
    file.write_text("object: role\ndomain: flights\nname: reporter\n")
    assert tool("apply", "-y", str(file), who="reader").code == Exit.REFUSED
    assert tool("plan", str(file), who="reader").code == Exit.PENDING
    for command in (("plan",), ("apply", "-y")):
        assert tool(*command, str(file), who="stranger").code == Exit.REFUSED
    assert tool("export", "flights", who="stranger").code == Exit.ERROR
    assert tool("export", who="pct_" + "x" * 40).code == Exit.SIGNED_OUT
    assert "reporter" not in tool("export", "flights").out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("object: role\ndomain: flights\n", "name"),
        ("object: role\ndomain: flights\nname: a\nname: b\n", "twice"),
        ("object: role\ndomain: flights\nname: a\ntitle: &x [*x]\n", "anchor"),
        ("a: &a [x]\nb: &b [*a, *a, *a]\n", "anchor"),
        ("object: nonsense\ndomain: flights\nname: a\n", "nonsense"),
        ("[" * 5000, ""),
    ],
)
def test_files_that_are_wrong(text: str, said: str, tool: Tool, tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    ended = tool("apply", "-y", str(file))
    assert ended.code == Exit.ERROR
    assert "wrong.yaml" in ended.err
    assert said in ended.err


def test_a_plan_that_is_no_longer_so(transport: Open) -> None:
    api = Api(transport("manager"))
    file = [("a.yaml", b"object: role\ndomain: flights\nname: reporter\n")]
    with pytest.raises(Stop) as stop:
        api.post_files("/apply", file, [("expect", "flights:0")])
    assert stop.value.code == Exit.STALE


def test_the_same_request_twice_is_one_deed(transport: Open) -> None:
    sent: list[Call] = []

    class Twice:
        def send(self, call: Call, progress: object = None) -> object:
            sent.append(call)
            first = transport("manager").send(call)
            second = transport("manager").send(call)
            assert first.body == second.body
            assert second.headers["idempotency-replayed"] == "true"
            return second

    Api(Twice()).post_files(  # type: ignore[arg-type]
        "/apply", [("a.yaml", b"object: role\ndomain: flights\nname: twice\n")], []
    )
    assert len(sent) == 1
    remove = transport("manager")
    listed = remove.send(Call("GET", "/roles", [("domain", "flights")])).json()["results"]
    assert [each["name"] for each in listed].count("twice") == 1


def test_who_may_do_what(tool: Tool) -> None:
    found = tool("access", "--domain", "flights", "-o", "json").json()
    assert [(each["principal"], each["type"]) for each in found] == [("United", "Flight")]
    assert tool("access", "-o", "json", who="stranger").json() == []
    assert tool("access", "--domain", "flights", who="stranger").code == Exit.ERROR
    assert tool("access", "--domain", "flights", "--type", "Fligt").code == Exit.ERROR


def test_why_and_why_not(tool: Tool) -> None:
    asked = ("explain", "--domain", "flights", "--action", "subscribe", "--type", "Flight")
    may = tool(*asked, "--principal", "United")
    assert may.code == Exit.OK, may
    assert "airlines read" in may.out
    may_not = tool(*asked, "--principal", "Delta")
    assert may_not.code == Exit.REFUSED
    assert "missing:" in may_not.out
    assert "licensed" in may_not.out
    found = tool(*asked, "--principal", "Delta", "--attribute", "carrier", "-o", "json")
    assert found.json()["allowed"] is False
    assert tool(*asked, "--principal", "Nobody").code == Exit.ERROR
    assert tool(*asked, "--principal", "United", who="stranger").code == Exit.ERROR


def test_the_audit_leaves_and_is_checked(tool: Tool, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    assert tool("audit", "export", "-f", str(file)).code == Exit.OK
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert "checkpoint" in lines[-1]
    checked = tool("audit", "verify", str(file), "-o", "json").json()
    assert checked["problems"] == []
    assert checked["entries"] == len(lines) - 1
    lines[0]["action"] = "nothing.happened"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    forged = tool("audit", "verify", str(file))
    assert forged.code == Exit.ERROR
    assert "line 1" in forged.out
    assert tool("audit", "checkpoints").code == Exit.OK


def test_a_server_that_is_not_there() -> None:
    gone = HttpTransport(Target(f"http://127.0.0.1:{free_port()}", "pct_" + "x" * 40))
    ended = policyctl("access", transport=gone)
    assert ended.code == Exit.UNREACHABLE
    assert "does not answer" in ended.err
