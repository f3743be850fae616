"""The whole ceremony with the real commands: authority, holders apart from each other, agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from brokers.adapters.rootfile import RootFile, load_pinned
from brokers.control.roots import follow
from policyengine.bundles import decode_root, encode_roots
from tasks.authority.__main__ import main as authority
from tests.support.policyctl import Ended, policyctl

PHRASE = "correct horse battery"


class Ceremony:
    """A folder for the authority and one for each holder's machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = ["--state", str(folder / "state")]
        self.pinned = folder / "anchors.json"
        assert authority(["init", *self.state, "--anchors", str(self.pinned)]) == 0
        for name in ("ada", "ben", "cyd", "dot", "eve"):
            (folder / name).mkdir()
            phrase = folder / name / "phrase"
            phrase.write_text(f"{PHRASE} {name}\n")
            phrase.chmod(0o600)
            self.ok("root", "key", self.key(name), *self.phrase(name))

    def key(self, name: str) -> str:
        return str(self.folder / name / "root.key")

    def phrase(self, name: str) -> list[str]:
        return ["--passphrase-file", str(self.folder / name / "phrase")]

    def at(self, name: str) -> str:
        return str(self.folder / name)

    def ok(self, *arguments: str) -> Ended:
        ended = policyctl(*arguments)
        assert ended.code == 0, ended.err
        return ended

    def sign(self, name: str, file: str, *more: str) -> Ended:
        return policyctl(
            "root", "sign", file, "--key", self.key(name), *self.phrase(name), "--yes", *more
        )

    def request(self, *fresh: str) -> str:
        file = self.at("request.json")
        more = ["--fresh", *fresh] if fresh else []
        assert authority(["request", *self.state, "--out", file, *more]) == 0
        return file

    def holders(self, *names: str) -> list[str]:
        return [part for name in names for part in ("--holder", f"{self.key(name)}.pub")]

    def first(self) -> str:
        """Root 1, signed by two and installed in place of the self-made one."""
        file = self.at("root-1.json")
        self.ok(
            *("root", "init", "--request", self.request(), "--out", file),
            *self.holders("ada", "ben", "cyd"),
        )
        for name in ("ada", "cyd"):
            assert self.sign(name, file).code == 0
        assert self.install(file, "--replace") == 0
        return file

    def install(self, file: str, *more: str) -> int:
        return authority(["install-root", *self.state, "--root", file, *more])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A passphrase costs half a second as it comes, which is for guessers to pay."""
    monkeypatch.setattr("brokers.policyctl.holders.COST", 2**4)


@pytest.fixture
def ceremony(tmp_path: Path) -> Ceremony:
    return Ceremony(tmp_path)


def test_two_of_three_sign_and_everybody_follows(ceremony: Ceremony, tmp_path: Path) -> None:
    first = ceremony.first()
    pinned = load_pinned(Path(first))
    assert pinned.root is not None
    agent = RootFile(tmp_path / "roots.json", pinned.root)
    # A year later: fresh online keys, signed by two others of the three.
    second = ceremony.at("root-2.json")
    request = ceremony.request("policy", "lease")
    ceremony.ok("root", "rotate", first, "--request", request, "--out", second)
    assert policyctl("root", "show", second).code == 4
    for name in ("ben", "cyd"):
        assert ceremony.install(second) == 2
        assert ceremony.sign(name, second).code == 0
    shown = ceremony.ok("root", "show", second, "--after", first, "-o", "json").json()
    assert (shown["version"], shown["missing"]) == (2, "")
    assert [each["signed"] for each in shown["holders"]] == [False, True, True]
    assert ceremony.install(second) == 0
    root = follow(
        encode_roots([decode_root(Path(second).read_bytes())]), current=agent.load(), now=0
    ).root
    assert root.version == 2
    assert root.lease != pinned.anchors.lease
    assert root.receipt == pinned.anchors.receipt


def test_a_holder_is_exchanged(ceremony: Ceremony) -> None:
    first, second = ceremony.first(), ceremony.at("root-2.json")
    ceremony.ok(
        *("root", "rotate", first, "--out", second, "--reset", "flights"),
        *ceremony.holders("cyd", "dot", "eve"),
    )
    assert ceremony.sign("dot", second).code == 0
    # Whoever leaves signs as a holder of the root before.
    refused = ceremony.sign("ada", second)
    assert refused.code == 1
    assert "--after" in refused.err
    assert ceremony.sign("ada", second, "--after", first).code == 0
    shown = policyctl("root", "show", second, "--after", first)
    assert shown.code == 4
    assert "1 more of the holders of root 1 and 1 more of the holders of root 2" in shown.out
    assert "revisions of these domains go back: flights" in shown.out
    assert ceremony.install(second) == 2
    signed = ceremony.sign("cyd", second, "--after", first, "--out", ceremony.at("done.json"))
    assert "signed by enough holders" in signed.out
    assert ceremony.install(ceremony.at("done.json")) == 0


def test_keys_made_here_all_at_once(ceremony: Ceremony) -> None:
    keys = [ceremony.at(f"{name}.key") for name in ("one", "two", "three")]
    command = ["root", "init", "--request", ceremony.request(), "--out", ceremony.at("r.json")]
    made = [part for file in keys for part in ("--new-holder", file)]
    short = policyctl(*command, *made, *ceremony.phrase("ada"))
    assert "one --passphrase-file for each" in short.err
    ceremony.ok(*command, *made, *ceremony.phrase("ada"), *ceremony.phrase("ben"),
                *ceremony.phrase("cyd"))  # fmt: skip
    for file in keys:
        assert Path(file).stat().st_mode & 0o777 == 0o600
    signed = policyctl("root", "sign", ceremony.at("r.json"), "--key", keys[0], "--yes",
                       *ceremony.phrase("ada"))  # fmt: skip
    assert signed.code == 0


def test_keys_are_encrypted_private_and_never_written_over(ceremony: Ceremony) -> None:
    path = Path(ceremony.key("ada"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert set(json.loads(path.read_text())) == {"format", "public", "cost", "salt", "sealed"}
    again = policyctl("root", "key", str(path), *ceremony.phrase("ada"))
    assert again.code == 1
    assert "never written over" in again.err
    file = ceremony.first()
    wrong = policyctl("root", "sign", file, "--key", str(path), "--yes", *ceremony.phrase("ben"))
    assert "does not open" in wrong.err
    path.chmod(0o644)
    assert "others may read" in ceremony.sign("ada", file).err


def test_nobody_signs_unseen(ceremony: Ceremony, monkeypatch: pytest.MonkeyPatch) -> None:
    file = ceremony.first()
    command = ["root", "sign", file, "--key", ceremony.key("ben"), *ceremony.phrase("ben")]
    assert "nobody is here to agree" in policyctl(*command).err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _question: "no")
    assert "nothing was signed" in policyctl(*command).err
    monkeypatch.setattr("builtins.input", lambda _question: "y")
    ended = policyctl(*command)
    assert ended.code == 0
    assert decode_root(Path(file).read_bytes()).fingerprint in ended.out


def test_a_typed_passphrase(ceremony: Ceremony, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("brokers.policyctl.holders.getpass", lambda _prompt: said.pop(0))
    command = ["root", "key", ceremony.at("typed.key")]
    assert "nobody is here to type" in policyctl(*command).err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    said += ["short"]
    assert "at least 12" in policyctl(*command).err
    said += [PHRASE, f"{PHRASE}s"]
    assert "differ" in policyctl(*command).err
    assert not Path(ceremony.at("typed.key")).exists()
    said += [PHRASE, PHRASE]
    assert policyctl(*command).code == 0


def test_what_is_wrong_is_said(ceremony: Ceremony, tmp_path: Path) -> None:
    first = ceremony.first()
    rubbish = tmp_path / "rubbish"
    rubbish.write_text("{}")
    init = ["root", "init", "--request", ceremony.request()]
    cases: list[tuple[list[str], str]] = [
        ([*init, "--out", first, *ceremony.holders("ada", "ben")], "is there already"),
        ([*init, "--out", "x", "--holder", str(rubbish)], "no key of a root holder"),
        ([*init, "--out", "x", "--holder", str(tmp_path / "none")], "cannot be read"),
        ([*init, "--out", "x", *ceremony.holders("ada")], "no root can say this"),
        ([*init, "--out", "x", *ceremony.holders("ada", "ada")], "must not repeat a key"),
        (["root", "init", "--request", str(rubbish), "--out", "x"], "no request"),
        (["root", "show", str(rubbish)], "no root"),
        (["root", "rotate", str(rubbish), "--out", "x"], "no root"),
    ]
    for command, message in cases:
        ended = policyctl(*command)
        assert ended.code == 1, command
        assert message in ended.err, ended.err
    assert not Path("x").exists()


def test_a_root_of_others_does_not_follow(ceremony: Ceremony) -> None:
    first, other = ceremony.first(), ceremony.at("other.json")
    ceremony.ok(
        *("root", "init", "--request", ceremony.request(), "--out", other),
        *ceremony.holders("ada", "ben", "cyd"),
    )
    for name in ("ada", "ben"):
        ceremony.sign(name, other)
    refused: Any = policyctl("root", "show", other, "--after", first)
    assert refused.code == 3
    assert "trusted already" in refused.err
    unsigned = ceremony.at("next.json")
    ceremony.ok("root", "rotate", first, "--out", unsigned)
    assert "signatures that root" in policyctl("root", "rotate", unsigned, "--out", "y").err
