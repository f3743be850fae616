"""Events as lines of JSON: what is read, what is told, and how the program ends; no broker."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

from brokers.client import (
    BufferFull,
    Event,
    NotAuthorised,
    NotReady,
    ProfileError,
    Published,
    RefusedEvent,
    TimedOut,
)
from brokers.policyctl import events
from brokers.policyctl.errors import Exit
from policyengine.errors import InputError
from tests.support.policyctl import Ended, policyctl

FLIGHT = {"carrier": "UA", "delay": 130, "late": True, "ratio": 0.5}


@dataclass
class FakeHandle:
    id: str
    future: Future[Published]

    def wait(self, timeout: float) -> Published:
        try:
            return self.future.result(0)
        except TimeoutError:
            raise TimedOut("timeout", f"no answer in {timeout} s") from None


@dataclass
class FakeClient:
    """A publisher and a subscriber whose agents answer by the event's `delay`."""

    folder: Path
    not_ready: bool = False
    full: int = 0
    flushes: bool = True
    sent: list[tuple[str, Mapping[str, Any], str | None]] = field(default_factory=list)
    refusals: list[RefusedEvent] = field(default_factory=list)
    events: deque[Event] = field(default_factory=deque)
    finished: list[str] = field(default_factory=list)
    pending: Event | None = None
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    waiting: int = 3

    def wait_ready(self, timeout: float, *, domain: str | None) -> None:
        if self.not_ready:
            raise NotReady("not-ready", "no policy has arrived yet")

    def publish_nowait(
        self, event_type: str, values: Mapping[str, Any], *, timeout: float, domain: str | None
    ) -> FakeHandle:
        self.sent.append((event_type, values, domain))
        future: Future[Published] = Future()
        match values.get("delay"):
            case -1:
                future.set_exception(NotAuthorised("not-authorised", "no policy permits it"))
            case -2:
                pass  # never answered
            case -3:
                raise InputError("too-large", "too much of it")
            case -4:
                raise BufferFull("1000 events are under way")
            case _:
                future.set_result(Published(f"id{len(self.sent)}", ("tail",)))
        return FakeHandle(f"id{len(self.sent)}", future)

    def enqueue(self, event_type: str, values: Mapping[str, Any], *, domain: str | None) -> str:
        if self.full:
            self.full -= 1
            raise BufferFull("10000 events wait")
        self.sent.append((event_type, values, domain))
        return f"id{len(self.sent)}"

    def flush(self, timeout: float) -> bool:
        return self.flushes

    def refused(self) -> list[RefusedEvent]:
        return list(self.refusals)

    def forget_refused(self, identifier: str) -> None:
        self.refusals = [one for one in self.refusals if one.id != identifier]

    def subscribe(self, kind: str, text: str, *, timeout: float, domain: str | None) -> str:
        self.asked.append((kind, text, domain))
        if kind == "Secret":
            raise NotAuthorised("not-authorised", "no policy permits it")
        return f"s-{kind}"

    def unsubscribe(self, identifier: str, *, timeout: float) -> None:
        self.ended.append(identifier)

    def next_event(self, timeout: float | None) -> Event | None:
        self.finish()
        if not self.events and timeout is None:
            raise KeyboardInterrupt
        self.pending = self.events.popleft() if self.events else None
        return self.pending

    def finish(self) -> None:
        if self.pending is not None:
            self.finished.append(self.pending.publication)
        self.pending = None

    def give_back(self) -> None:
        self.pending = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeClient:
    made = FakeClient(tmp_path)

    def opened(folder: Path | str) -> FakeClient:
        if Path(folder) != tmp_path:
            raise ProfileError(f"{folder}/profile.json: No such file or directory")
        return made

    monkeypatch.setattr(events, "Publisher", opened)
    monkeypatch.setattr(events, "Subscriber", opened)
    return made


@pytest.fixture
def tool(client: FakeClient) -> Callable[..., Ended]:
    return lambda *words: policyctl(*words, environment={"PORTCULLIS_PROFILE": str(client.folder)})


@pytest.fixture
def publish(tool: Callable[..., Ended], tmp_path: Path) -> Callable[..., Ended]:
    def run(lines: list[Any], *words: str) -> Ended:
        file = tmp_path / "lines"
        text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        file.write_text("\n".join(text), encoding="utf-8")
        return tool("publish", "-f", str(file), *words)

    return run


def results(ended: Ended) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ended.out.splitlines()]


def flight(**values: Any) -> dict[str, Any]:
    return {"type": "Flight", "attributes": {**FLIGHT, **values}}


# publish


def test_each_line_has_one_result(publish: Callable[..., Ended], client: FakeClient) -> None:
    ended = publish([flight(), "", flight(carrier="DL")], "--domain", "flights")
    assert ended.code == Exit.OK
    assert client.sent == [
        ("Flight", FLIGHT, "flights"),
        ("Flight", {**FLIGHT, "carrier": "DL"}, "flights"),
    ]
    assert results(ended) == [
        {"line": 1, "id": "id1", "accepted": True, "dropped": ["tail"]},
        {"line": 3, "id": "id2", "accepted": True, "dropped": ["tail"]},
    ]


def test_lines_are_attributes_alone_where_the_type_is_given(
    publish: Callable[..., Ended], client: FakeClient
) -> None:
    assert publish([FLIGHT], "--type", "Departure").code == Exit.OK
    assert client.sent == [("Departure", FLIGHT, None)]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "is no JSON"),
        ("[1]", "is no JSON object"),
        ('{"a": 1, "a": 2}', "a name stands there twice"),
        ('{"type": "Flight", "attributes": {"delay": NaN}}', "`NaN` is no number"),
        ('{"type": "Flight"}', "needs exactly"),
        ('{"type": 1, "attributes": {}}', "needs exactly"),
        ('{"type": "Flight", "attributes": {}, "more": 1}', "needs exactly"),
        ('{"type": "Flight", "attributes": []}', "an object of names and values"),
        ('{"type": "Flight", "attributes": {"a": null}}', "`a` is no text"),
        ('{"type": "Flight", "attributes": {"a": [1]}}', "`a` is no text"),
        ("[" * 100_000, "is no JSON"),
        ('{"a": "' + "x" * 2 * events.MAX_LINE + '"}', "is longer than"),
    ],
)
def test_a_wrong_line_is_told_and_the_others_are_sent(
    publish: Callable[..., Ended], client: FakeClient, line: str, said: str
) -> None:
    ended = publish([line, flight()])
    assert ended.code == Exit.ERROR
    wrong, right = results(ended)
    assert (wrong["line"], wrong["accepted"], wrong["reason"]) == (1, False, "malformed")
    assert said in wrong["message"]
    assert (right["line"], right["accepted"]) == (2, True)
    assert len(client.sent) == 1


@pytest.mark.parametrize(
    ("delays", "code", "reasons"),
    [
        ([-1], Exit.REFUSED, {1: "not-authorised"}),
        ([-2], Exit.UNREACHABLE, {1: "timeout"}),
        ([-3], Exit.ERROR, {1: "malformed"}),
        ([5, -2, -1], Exit.REFUSED, {2: "timeout", 3: "not-authorised"}),
        ([-1, -3, -2], Exit.ERROR, {1: "not-authorised", 2: "malformed", 3: "timeout"}),
    ],
)
def test_the_worst_result_decides_how_it_ends(
    publish: Callable[..., Ended], delays: list[int], code: Exit, reasons: dict[int, str]
) -> None:
    ended = publish([flight(delay=delay) for delay in delays])
    assert ended.code == code
    told = results(ended)
    assert sorted(one["line"] for one in told) == list(range(1, len(delays) + 1))
    assert {one["line"]: one["reason"] for one in told if not one["accepted"]} == reasons


def test_too_many_events_without_an_answer_end_it(publish: Callable[..., Ended]) -> None:
    ended = publish([flight(delay=-4), flight()])
    assert (ended.code, ended.out) == (Exit.UNREACHABLE, "")
    assert "1000 events are under way" in ended.err


def test_durable_events_are_kept_and_refusals_told_once(
    publish: Callable[..., Ended], client: FakeClient
) -> None:
    client.full = 1
    client.refusals = [
        RefusedEvent("id0", "flights", "Flight", FLIGHT, "not-authorised", "no policy permits it")
    ]
    ended = publish([flight(), "{"], "--durable")
    assert ended.code == Exit.ERROR
    kept, wrong, refused = results(ended)
    assert kept == {"line": 1, "id": "id1", "kept": True}
    assert wrong["reason"] == "malformed"
    assert (refused["id"], refused["accepted"], refused["reason"]) == (
        "id0", False, "not-authorised",
    )  # fmt: skip
    again = publish([], "--durable")
    assert (again.code, again.out) == (Exit.OK, "")


def test_durable_events_that_cannot_be_sent_wait(
    publish: Callable[..., Ended], client: FakeClient
) -> None:
    client.flushes = False
    ended = publish([flight()], "--durable")
    assert ended.code == Exit.UNREACHABLE
    assert results(ended) == [{"line": 1, "id": "id1", "kept": True}]
    assert "3 events wait on disk" in ended.err
    client.full = 1
    ended = publish([flight()], "--durable")
    assert ended.code == Exit.UNREACHABLE
    assert "nothing more can be kept" in ended.err


def test_wrong_use_ends_it(tool: Callable[..., Ended], client: FakeClient, tmp_path: Path) -> None:
    assert "PORTCULLIS_PROFILE" in policyctl("publish", "-f", "/dev/null").err
    missing = policyctl("subscribe", "Flight", "--profile", str(tmp_path / "no"))
    assert (missing.code, "profile.json" in missing.err) == (Exit.ERROR, True)
    assert tool("publish", "-f", str(tmp_path / "no")).code == Exit.ERROR
    assert tool("publish", "-f", "/dev/null", "-o", "yaml").code == Exit.ERROR
    (tmp_path / "latin").write_bytes(b'{"a": "\xe9"}')
    ended = tool("publish", "-f", str(tmp_path / "latin"))
    assert (ended.code, "not UTF-8" in ended.err) == (Exit.ERROR, True)
    client.not_ready = True
    ended = tool("publish", "-f", "/dev/null")
    assert (ended.code, "no policy has arrived" in ended.err) == (Exit.UNREACHABLE, True)


def test_nobody_reads_the_results(client: FakeClient, tmp_path: Path) -> None:
    class Gone:
        def line(self, _value: object) -> None:
            raise BrokenPipeError

    account = events._Account(Gone(), lambda _done: None)  # type: ignore[arg-type]
    account.tell(Exit.OK, line=1)
    with pytest.raises(BrokenPipeError):
        account.check()


# subscribe


def event(number: int, **attributes: Any) -> Event:
    return Event("Flight", f"p{number}", attributes, {"tail": "no-key"}, "p-airport", "flights")


@pytest.fixture
def three(client: FakeClient) -> FakeClient:
    client.events.extend(event(number, delay=number) for number in range(3))
    return client


def test_events_are_lines(tool: Callable[..., Ended], three: FakeClient) -> None:
    ended = tool("subscribe", "Flight", "delay > 120", "--count", "2", "--domain", "flights")
    assert ended.code == Exit.OK
    assert three.asked == [("Flight", "delay > 120", "flights")]
    assert results(ended)[1] == {
        "type": "Flight",
        "attributes": {"delay": 1},
        "withheld": {"tail": "no-key"},
        "publication": "p1",
        "publisher": "p-airport",
        "domain": "flights",
    }
    assert three.finished == ["p0", "p1"]
    assert len(three.events) == 1
    assert three.ended == []


def test_fewer_events_than_asked_for(tool: Callable[..., Ended], three: FakeClient) -> None:
    assert tool("subscribe", "Flight", "--count", "4", "--idle", "1").code == Exit.FEWER
    assert tool("subscribe", "Flight", "--idle", "1", "--leave").code == Exit.OK
    assert three.ended == ["s-Flight"]


def test_ctrl_c_ends_it_well(tool: Callable[..., Ended], three: FakeClient) -> None:
    ended = tool("subscribe", "Flight")
    assert (ended.code, len(results(ended))) == (Exit.OK, 3)


def test_a_refusal_says_why(tool: Callable[..., Ended], client: FakeClient) -> None:
    ended = tool("subscribe", "Secret")
    assert (ended.code, ended.out) == (Exit.REFUSED, "")
    assert "not-authorised: no policy permits it" in ended.err


def test_what_a_terminal_would_obey_is_escaped(
    tool: Callable[..., Ended], client: FakeClient
) -> None:
    text = "é\x9b31m\x1b[2J\u202e"
    client.events.append(event(1, text=text))
    ended = tool("subscribe", "Flight", "--count", "1")
    assert results(ended)[0]["attributes"]["text"] == text
    assert all(each.isprintable() for each in ended.out.rstrip("\n"))
    assert "é" in ended.out
