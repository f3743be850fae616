"""Metrics, read back by a parser of the format's grammar that shares no code with ours."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from brokers.agent.metrics import Family, exposition
from brokers.agent.report import Report
from brokers.agent.statistics import RefusedMessage, Statistics
from brokers.data.window import Windows
from policyengine.primitives.rand import SYSTEM_RANDOM

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL},?)*)\}})? (NaN|[+-]?Inf|[-+0-9.e]+)")


def parse(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    assert text.endswith("\n")
    helped: set[str] = set()
    typed: dict[str, str] = {}
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for line in text[:-1].split("\n"):
        if help_ := re.fullmatch(rf"# HELP ({NAME}) .+", line):
            assert help_[1] not in helped
            helped.add(help_[1])
        elif type_ := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge)", line):
            assert type_[1] not in typed
            assert type_[1] in helped
            typed[type_[1]] = type_[2]
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            assert sample[1] in typed
            assert list(typed)[-1] == sample[1]  # all of a family stand together
            labels = {
                name: re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), value)
                for name, value in re.findall(LABEL, sample[2] or "")
            }
            found.setdefault(sample[1], []).append((labels, float(sample[5])))
    assert helped == set(typed)
    return found


def test_labels_are_escaped_and_read_back_as_they_were() -> None:
    nasty = ['a"b', "back\\slash", "new\nline", "\\n", '"}\n# TYPE x counter', "é", ""]
    family = Family("x_total", "counter", "Help with \\ and\nmore.")
    for number, value in enumerate(nasty):
        family.add(number + 0.5, label=value, other="o")
    found = parse(exposition([family, Family("empty", "gauge", "Nothing yet.")]))
    assert found == {
        "x_total": [({"label": v, "other": "o"}, n + 0.5) for n, v in enumerate(nasty)]
    }


def test_an_agents_metrics_are_well_formed() -> None:
    statistics = Statistics()
    statistics.count("flights", "delivered", 7)
    statistics.refused(RefusedMessage(at=0, domain="flights", kind="hop", reason='odd"\nreason'))
    view = SimpleNamespace(book=SimpleNamespace(remaining=lambda *_: 12.34))
    snapshot = SimpleNamespace(revision=41)
    parts: dict[str, Any] = {
        "control": SimpleNamespace(connected=True),
        "data": SimpleNamespace(connected=False),
        "link": SimpleNamespace(standing=lambda _: "serving", view=view, not_kept=3),
        "policy": SimpleNamespace(domains={"flights": SimpleNamespace(snapshot=snapshot)}),
        "clock": SimpleNamespace(boot=lambda: 5.0),
        "windows": Windows(200, SYSTEM_RANDOM, [("flights", "p-ua", True), ("x", "p-ua", False)]),
        "disk": SimpleNamespace(problem="disk-full"),
    }
    page = Report(agent="alpha", overlay="a", statistics=statistics, **parts).metrics()
    assert page.kind == "text/plain; version=0.0.4"
    found = parse(page.body)
    here = {"agent": "alpha", "domain": "flights"}
    assert found["portcullis_events_total"] == [({**here, "what": "delivered"}, 7)]
    assert found["portcullis_refusals_total"] == [({**here, "reason": 'odd"\nreason'}, 1)]
    assert found["portcullis_revision"] == [(here, 41)]
    assert found["portcullis_lease_seconds_left"] == [(here, 12.3)]
    assert found["portcullis_clients_behind"] == [(here, 1)]
    assert found["portcullis_sent_ahead"] == [(here, 0)]
    assert found["portcullis_connected"] == [
        ({"agent": "alpha", "broker": "control"}, 1),
        ({"agent": "alpha", "broker": "overlay"}, 0),
    ]
    assert found["portcullis_disk_usable"] == [({"agent": "alpha"}, 0)]
    assert found["portcullis_not_kept"] == [({"agent": "alpha"}, 3)]
    ((_, memory),) = found["process_resident_memory_bytes"]
    assert 2**20 < memory < 2**36
