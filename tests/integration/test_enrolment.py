"""`policyctl enrol` against a control plane in processes of its own, stopped and resumed."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.adapters.brokers_file import BrokersFile
from brokers.adapters.enrolment import Enrolled, EnrolmentRefused, Renewer
from brokers.adapters.files import Keys
from brokers.agent.config import AgentConfig
from brokers.client.profile import Profile
from policyengine.primitives.canonical import b64
from tests.support.certificates import Issuer
from tests.support.enrolment_site import EnrolmentSite, enrolment_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EnrolmentSite]:
    """One control plane for all, which says where brokers stand."""
    folder = tmp_path_factory.mktemp("site")
    Issuer(folder)  # writes ca.pem
    brokers = {"control": "a", "overlays": {"a": {"host": "mq.example", "port": 61614,
                                                  "ca": "ca.pem"}}}  # fmt: skip
    (folder / "brokers.json").write_text(json.dumps(brokers))
    environment = {"PORTCULLIS_ENROLMENT_BROKERS": str(folder / "brokers.json")}
    with enrolment_site(folder, environment) as made:
        yield made


def shown(text: str) -> str:
    """The fingerprint that the command shows to whoever stands before it."""
    lines = [line for line in text.splitlines() if line.startswith("fingerprint")]
    return lines[-1].removeprefix("fingerprint").strip()


def test_an_agent_enrols_and_goes_on_after_it_was_stopped(
    site: EnrolmentSite, tmp_path: Path
) -> None:
    folder = tmp_path / "alpha"
    token = site.agent_token("alpha")
    words = ("enrol", "agent", "--url", site.url, "--folder", str(folder))
    first = site.command(*words, "--token", token, log="first.log")
    site.asked_by(first)
    assert not (folder / "agent.toml").exists()
    first.process.kill()
    first.process.wait(60)
    # The same command without a token: the request is known, and so are its keys.
    second = site.command(*words, log="second.log")
    row = site.asked_by(second)
    assert shown(first.text()) == shown(second.text()) == row["fingerprint"]
    site.confirm(row, shown(second.text()))
    assert second.process.wait(120) == 0, second.text()

    config = AgentConfig.load(folder / "agent.toml")
    assert (config.name, config.overlay) == ("alpha", "a")
    keys = Keys.load(config.state / "keys.json")
    (agent,) = site.api("GET", "/agents")["results"]
    assert agent["verify_key"] == b64(keys.signing.public)
    broker = BrokersFile.load(config.brokers_file).control_broker()
    assert (broker.host, broker.tls.ca) == ("mq.example", str(folder / "ca-a.pem"))
    assert broker.tls.certificate == broker.tls.key == str(folder / "tls.pem")
    for name in ("tls.pem", "enrolment.json", "brokers.json", "state/keys.json"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, name
    assert not (folder / "application.json").exists()
    pinned = (site.folder / "anchors.json").read_bytes()
    assert (folder / "anchors.json").read_bytes() == pinned
    again = site.command(*words, log="again.log")
    assert again.process.wait(120) == 0
    assert "enrolled already" in again.text()
    _renews_and_is_banned(site, folder, agent["id"])


def _renews_and_is_banned(site: EnrolmentSite, folder: Path, agent: int) -> None:
    renewer = Renewer(folder)
    before = renewer.dates()
    assert not renewer.due()
    done = site.command("enrol", "renew", "--folder", str(folder), log="renewed.log")
    assert done.process.wait(120) == 0, done.text()
    after = renewer.dates()
    assert after[0] != before[0]
    assert not list(folder.glob("renewal-*"))
    # An answer that was lost: the same wish is sent again, and answered alike.
    wish = renewer._kept(after[0])
    lost = renewer._server.post("/enrol/renew", wish.record, wish.signature)
    renewer.renew()
    assert renewer.dates()[0] == lost["serial"]
    site.api("PATCH", f"/agents/{agent}", {"state": "banned"}, **{"If-Match": "*"})
    with pytest.raises(EnrolmentRefused):
        renewer.renew()
    banned = site.api("GET", "/certificates?banned=true")["results"]
    assert {row["serial"] for row in banned} == {before[0], after[0], lost["serial"]}


def test_a_client_enrols(site: EnrolmentSite, tmp_path: Path) -> None:
    folder = tmp_path / "united"
    running = site.command(
        *("enrol", "client", "--url", site.url, "--folder", str(folder)),
        *("--token", site.client_token()),
        log="client.log",
    )
    row = site.asked_by(running)
    site.confirm(row, shown(running.text()))
    assert running.process.wait(120) == 0, running.text()
    profile = Profile.load(folder)
    assert (profile.handle, profile.domain) == (site.seeded["handle"], "flights")
    assert profile.enrolled
    principal = site.api("GET", f"/principals/{site.seeded['principal']}")
    assert principal["sealing_key"] == b64(profile.keys.sealing.public)
    assert Enrolled.load(folder).place == "flights"


def test_what_is_refused_leaves_a_folder_that_can_begin_anew(
    site: EnrolmentSite, tmp_path: Path
) -> None:
    folder = tmp_path / "delta"
    words = ("enrol", "agent", "--url", site.url, "--folder", str(folder))
    wrong = site.command(*words, "--token", "pce_" + "x" * 40, log="wrong.log")
    assert wrong.process.wait(120) == 3
    assert "token is not valid" in wrong.text()
    running = site.command(*words, "--token", site.agent_token("delta"), log="refused.log")
    row = site.asked_by(running)
    place = f"/enrolments/{row['id']}/refuse"
    site.api("POST", place, {"reason": "not ours"}, **{"If-Match": "*"})
    assert running.process.wait(120) == 3
    assert "refused: not ours" in running.text()
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "state"]
