"""The console's parts that need no database: words, diffs, patterns, assets."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.template import Context, Template

from adminapp.console import assets, brokerview, diffs, words
from adminapp.policies.access import Access
from policyengine.anonset import Encoder, size_for
from policyengine.primitives.rand import SeededRandom

ROOT = Path(__file__).resolve().parents[3]


def rendered(source: str, **context: object) -> str:
    return Template("{% load console %}" + source).render(Context(context))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.038, "38 ms"), (1.4, "1 s"), (59, "59 s"), (61, "1 min"), (7200, "2 h"), (200_000, "2 d")],
)
def test_a_length_of_time_is_said_coarsely(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said


def test_how_long_ago() -> None:
    assert words.ago(0.5) == "just now"
    assert words.ago(30) == "30 s ago"
    assert words.ago(-30) == "in 30 s"


@pytest.mark.parametrize(
    ("position", "marked"),
    [(0, "event.orign"), (12, "=="), (15, '"x"'), (None, ""), (99, '"')],
)
def test_the_place_of_a_fault_is_a_whole_word(position: int | None, marked: str) -> None:
    text = 'event.orign == "x"'
    start, end = words.place(text, position)
    assert text[start:end] == marked


@pytest.mark.parametrize("position", [0, 3, 50, None])
def test_a_place_lies_within_the_text(position: int | None) -> None:
    for text in ("", " ", "  ab  ", "()", "ä ö"):
        start, end = words.place(text, position)
        assert 0 <= start <= end <= len(text)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"type": "string"}, "a text"),
        ({"type": "bool"}, "yes or no"),
        ({"type": "int", "min": 0, "max": 9999}, "a whole number from 0 to 9,999"),
        ({"type": "float", "min": 0.5}, "a number of at least 0.5"),
        ({"type": "int", "max": 7, "step": 2}, "a whole number of at most 7 in steps of 2"),
        ({"type": "enum", "values": ["a", "b"]}, "one of a, b"),
    ],
)
def test_a_type_is_told_in_words(declared: dict[str, object], said: str) -> None:
    assert words.type_in_words(declared) == said


def test_access_that_differs_in_the_type_alone_is_one_line() -> None:
    def line(kind: str, condition: str = "where event.a is 1") -> Access:
        return Access("UA", "p-1", "subscribe", kind, ("a",), condition, ("own",))

    rows = words.access_rows([line("Arrival"), line("Departure"), line("Flight", "")])
    assert [(row.types, row.condition) for row in rows] == [
        (("Arrival", "Departure"), "event.a is 1"),
        (("Flight",), ""),
    ]


def test_a_difference_names_every_field_that_changed() -> None:
    found = diffs.between({"a": 1, "b": True, "gone": None}, {"a": 1, "b": False, "valid_to": "x"})
    assert [(each.field, each.before, each.after) for each in found] == [
        ("B", "yes", "no"),
        ("Gone", "nothing", None),
        ("Valid to", None, "x"),
    ]
    assert diffs.between(None, None) == []


def test_backticks_become_code_and_everything_else_is_escaped() -> None:
    shown = rendered("{{ text|ticks }}", text="`<b>` is no <i>`x`")
    assert shown == "<code>&lt;b&gt;</code> is no &lt;i&gt;<code>x</code>"
    assert rendered("{{ text|ticks }}", text="one ` alone <") == "one ` alone &lt;"


def test_what_is_missing_has_a_word() -> None:
    shown = rendered("{{ nothing.at|moment }}, {{ nothing.at|clock }}, {{ nothing|digest }}")
    assert shown == "never, not yet, none yet"


def test_unknown_codes_are_shown_as_they_are() -> None:
    assert words.term("agent", "odd").label == "odd"
    assert words.revocation_event("new-thing").label == "New thing"
    assert words.revocation_event("notice-applied", "alpha").label == "alpha stopped serving it"


def test_a_bloom_encoding_is_drawn_bit_by_bit() -> None:
    parameters = size_for(4, encoding="bloom")
    encoder = Encoder(b"k" * 32, parameters, random=SeededRandom(b"seed"))
    data = encoder.encode_policy(["subject.a==1"])
    found = brokerview.pattern(data, parameters)
    assert found is not None
    assert found.columns * found.rows >= parameters.m
    places = re.findall(r"M(\d+) (\d+)h", found.meant + found.masks)
    assert len(set(places)) == len(places)
    size = parameters.filter_bytes
    bits = int.from_bytes(data[-2 * size : -size], "little").bit_count()
    assert len(places) == bits
    assert all(int(x) < found.columns and int(y) < found.rows for x, y in places)


def test_tokens_are_drawn_too_and_strange_bytes_are_not() -> None:
    parameters = size_for(4, encoding="tokens")
    encoder = Encoder(b"k" * 32, parameters, random=SeededRandom(b"seed"))
    found = brokerview.pattern(encoder.encode_policy(["subject.a==1"]), parameters)
    assert found is not None
    assert found.masks == ""
    assert brokerview.pattern(b"not an encoding", size_for(4, encoding="bloom")) is None


@pytest.mark.parametrize(
    ("probability", "lead", "power"),
    [(0.0, "∞", 0), (0.25, "4", 0), (5.4e-20, "1.9", 19), (1e-6, "1.0", 6)],
)
def test_odds_are_said_as_one_in_so_many(probability: float, lead: str, power: int) -> None:
    found = brokerview.odds(probability)
    assert (found.lead, found.power) == (lead, power)


# -- front-end parts -------------------------------------------------------------------------


def package(folder: Path) -> Path:
    modules = folder / "node_modules"
    icon = '<svg\n  class="icon">\n  <path d="M1 1" />\n</svg>'
    files = {
        assets.HTMX: "htmx()\n//# sourceMappingURL=htmx.min.js.map",
        assets.BOOTSTRAP: ".a{background:url(\"data:image/svg+xml,%3csvg fill='%23fff'/%3e\")}"
        "/*# sourceMappingURL=bootstrap.min.css.map */",
        **dict.fromkeys(assets.LICENCES.values(), "licence"),
        **{f"{assets.ICON_FOLDER}/{name}.svg": icon for name in assets.ICONS},
    }
    for name, text in files.items():
        (modules / name).parent.mkdir(parents=True, exist_ok=True)
        (modules / name).write_text(text)
    return modules


def test_parts_get_their_hash_and_no_address_leads_outside(tmp_path: Path) -> None:
    target = tmp_path / "static" / "vendor"
    manifest = assets.build(package(tmp_path), target)
    assert manifest == json.loads((target / "manifest.json").read_text())
    assert set(manifest) == {"htmx.js", "icons.svg", "bootstrap.css"}
    style = (target / manifest["bootstrap.css"]).read_text()
    assert "data:" not in style
    picture = re.search(r'url\("([^"]+)"\)', style)
    assert picture is not None
    assert (target / picture[1]).read_text() == "<svg fill='#fff'/>"
    for name in ("htmx.js", "bootstrap.css"):
        assert "sourceMappingURL" not in (target / manifest[name]).read_text()
    assert (target / manifest["icons.svg"]).read_text().count("<symbol") == len(assets.ICONS)


def test_a_changed_part_gets_another_name_and_the_old_one_goes(tmp_path: Path) -> None:
    modules, target = package(tmp_path), tmp_path / "vendor"
    before = assets.build(modules, target)
    (modules / assets.HTMX).write_text("other()")
    after = assets.build(modules, target)
    assert before["htmx.js"] != after["htmx.js"]
    assert before["bootstrap.css"] == after["bootstrap.css"]
    assert not (target / before["htmx.js"]).exists()


def test_the_same_parts_stay_where_they_are(tmp_path: Path) -> None:
    modules, target = package(tmp_path), tmp_path / "vendor"
    assets.build(modules, target)
    before = {path.name: path.stat().st_ino for path in (target, *target.iterdir())}
    assets.build(modules, target)
    assert {path.name: path.stat().st_ino for path in (target, *target.iterdir())} == before
    assert [path.name for path in tmp_path.glob("vendor*")] == ["vendor"]


def test_a_missing_package_is_said_and_leaves_what_was_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    modules, target = package(tmp_path), tmp_path / "vendor"
    assets.build(modules, target)
    (modules / assets.HTMX).unlink()
    arguments = ["--modules", str(modules), "--target", str(target)]
    assert assets.main(arguments) == 1
    assert "run `npm ci` first" in capsys.readouterr().err
    assert (target / "manifest.json").exists()


def test_templates_and_words_use_the_icons_of_the_sprite_and_no_other() -> None:
    files = [*(ROOT / "templates").rglob("*.html"), *(ROOT / "adminapp" / "console").glob("*.py")]
    text = "\n".join(path.read_text() for path in files if path.name != "assets.py")
    used = set(re.findall(r'{% icon "([a-z0-9-]+)"', text))
    used |= set(re.findall(r'icon_name="([a-z0-9-]+)"', text))
    assert used <= set(assets.ICONS)
    unused = {name for name in assets.ICONS if f'"{name}"' not in text}
    assert unused == set()


def test_pages_hold_no_inline_script_or_style() -> None:
    for path in (ROOT / "templates").rglob("*.html"):
        text = path.read_text()
        assert not re.search(r"<script(?![^>]*\bsrc=)", text), path
        assert not re.search(r"<style\b|\sstyle=|\son[a-z]+=|javascript:|hx-on", text), path
        assert not re.search(r'(?:src|href)="https?:', text), path
