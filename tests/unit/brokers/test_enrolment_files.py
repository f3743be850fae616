"""What an enrolled folder holds, and a certificate that renews itself; no folder needs one."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from brokers.adapters.brokers_file import BrokersFile, ConfigurationError
from brokers.adapters.enrolment import (
    Enrolled,
    EnrolmentRefused,
    EnrolmentServer,
    EnrolmentUnreachable,
    Renewer,
    load_application,
    save_application,
)
from brokers.adapters.files import Keys
from brokers.adapters.renewing import RenewalThread
from brokers.agent.config import AgentConfig
from brokers.client import create_profile
from brokers.client.profile import Profile
from brokers.control import enrol
from policyengine.bundles.enrolment import EnrolmentRenewal, verify_enrolment
from policyengine.primitives.canonical import unb64
from policyengine.primitives.issuing import (
    CertificateAuthority,
    Subject,
    generate_tls_key,
    request_certificate,
)

AUTHORITY = CertificateAuthority(b"s" * 32)
UID = "0f" * 16
HOUR = timedelta(hours=1)


def issue(request: str, serial: int, begins: datetime, name: str = "alpha") -> str:
    return AUTHORITY.issue(
        request,
        Subject(name, "agents", UID),
        serial=serial,
        begins=begins,
        ends=begins + 2 * HOUR,
    )


@dataclass
class FakeControlPlane:
    """Answers renewals; what it answers next is said before."""

    signer: bytes = b""
    answers: list[tuple[int, object]] = field(default_factory=list)
    asked: list[EnrolmentRenewal] = field(default_factory=list)
    url: str = ""

    def answer(self, body: dict[str, str]) -> tuple[int, object]:
        data, signature = unb64(body["record"]), unb64(body["signature"])
        self.asked.append(verify_enrolment(EnrolmentRenewal, data, signature, self.signer))
        if self.answers:
            return self.answers.pop(0)
        pem = issue(self.asked[-1].tls_request, 100 + len(self.asked), datetime.now(UTC))
        return 200, {"certificate": pem}


@pytest.fixture
def server() -> Iterator[FakeControlPlane]:
    fake = FakeControlPlane()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            code, answer = fake.answer(body)
            self.send_response(code)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    httpd = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
    thread.start()
    fake.url = f"http://127.0.0.1:{httpd.server_port}"
    yield fake
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def enrolled(folder: Path, server: FakeControlPlane, begins: datetime) -> Renewer:
    keys = Keys.create(folder / "state" / "keys.json")
    server.signer = keys.signing.public
    key = generate_tls_key()
    (folder / "tls.pem").write_text(key + issue(request_certificate(key), 7, begins))
    Enrolled("agent", "alpha", "a", server.url, "", "state/keys.json", AUTHORITY.certificate).save(
        folder
    )
    return Renewer(folder)


def test_a_certificate_is_renewed_at_half_life(tmp_path: Path, server: FakeControlPlane) -> None:
    now = datetime.now(UTC)
    assert not enrolled(tmp_path, server, now).due()
    renewer = enrolled(tmp_path, server, now - HOUR)
    assert renewer.due()
    assert renewer.renew() > now + HOUR
    assert (renewer.dates()[0], renewer.due()) == ("65", False)
    assert server.asked[0].serial == "7"


def test_a_lost_answer_is_asked_for_again_with_the_same_wish(
    tmp_path: Path, server: FakeControlPlane
) -> None:
    enrolled(tmp_path, server, datetime.now(UTC) - HOUR)
    before = (tmp_path / "tls.pem").read_bytes()
    server.answers = [(503, {"detail": "away"}), (429, {"detail": "slowly"}), (200, [])]
    for _ in range(3):
        with pytest.raises(EnrolmentUnreachable):
            Renewer(tmp_path).renew()
    assert (tmp_path / "tls.pem").read_bytes() == before
    Renewer(tmp_path).renew()
    assert len(server.asked) == 4
    assert len(set(server.asked)) == 1


def test_a_certificate_of_somebody_else_is_not_taken(
    tmp_path: Path, server: FakeControlPlane
) -> None:
    renewer = enrolled(tmp_path, server, datetime.now(UTC) - HOUR)
    before = (tmp_path / "tls.pem").read_bytes()
    wish = renewer._kept("7")
    other = issue(request_certificate(wish.tls_key), 8, datetime.now(UTC), name="beta")
    foreign = issue(request_certificate(generate_tls_key()), 9, datetime.now(UTC))
    server.answers = [(200, {"certificate": other}), (200, {"certificate": foreign})]
    thread = RenewalThread(tmp_path)
    for _ in range(2):
        thread.step()
    assert (tmp_path / "tls.pem").read_bytes() == before
    thread.step()
    assert (tmp_path / "tls.pem").read_bytes() != before


class _Told(logging.Handler):
    """Keeps how loud it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.levels.append(record.levelname)


def test_what_fails_is_told_and_the_work_goes_on(tmp_path: Path, server: FakeControlPlane) -> None:
    enrolled(tmp_path, server, datetime.now(UTC) - HOUR)
    server.answers = [(403, {"detail": "banned"}), (503, {})]
    thread = RenewalThread(tmp_path)
    logger = logging.getLogger("portcullis.enrolment")
    told = _Told()
    logger.addHandler(told)
    thread.step()
    thread.step()
    logger.removeHandler(told)
    assert told.levels == ["ERROR", "WARNING"]
    thread.start()
    thread.stop()
    server.answers = [(403, {"detail": "banned"})]
    with pytest.raises(EnrolmentRefused, match="banned"):
        Renewer(tmp_path).renew()


def test_only_safe_addresses_are_asked(tmp_path: Path) -> None:
    for url in ("http://portcullis.example", "ftp://x", "https://a:b@x", "", "https://x?y=1"):
        with pytest.raises(ConfigurationError):
            EnrolmentServer(url)
    assert EnrolmentServer("https://x/api/v1").url == "https://x"
    with pytest.raises(ConfigurationError):
        EnrolmentServer("https://x", tmp_path / "none.pem")
    with pytest.raises(EnrolmentUnreachable):
        EnrolmentServer("http://127.0.0.1:1").post("/enrol", b"{}", b"")


def test_an_application_survives(tmp_path: Path) -> None:
    assert load_application(tmp_path) is None
    keys = Keys.create(tmp_path / "keys.json")
    made = enrol.apply(
        kind="agent", name="alpha", token="pce_x", sealing=keys.sealing, signing=keys.signing
    )
    save_application(tmp_path, made)
    assert load_application(tmp_path) == (made, None)
    offered = enrol.Offered(UID, b"{}", b"a" * 32)
    save_application(tmp_path, made, offered)
    assert load_application(tmp_path) == (made, offered)
    (tmp_path / "application.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="begin anew"):
        load_application(tmp_path)


# -- folders of the release before -----------------------------------------------------------


def test_an_agent_whose_keys_were_typed_in_renews_nothing(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text(
        'name = "alpha"\noverlay = "a"\nstate = "s"\nbrokers_file = "b"\nanchors_file = "c"\n'
    )
    assert AgentConfig.load(tmp_path / "agent.toml").enrolment_file is None


def test_an_enrolled_agent_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text(
        'name = "alpha"\noverlay = "a"\nstate = "s"\nbrokers_file = "b"\nanchors_file = "c"\n'
        'enrolment_file = "enrolment.json"\n'
    )
    config = AgentConfig.load(tmp_path / "agent.toml")
    assert config.enrolment_file == tmp_path / "enrolment.json"
    with pytest.raises(ConfigurationError):
        RenewalThread(tmp_path)


def test_a_profile_whose_keys_were_typed_in_renews_nothing(tmp_path: Path) -> None:
    brokers = tmp_path / "brokers.json"
    tls = {"ca": "ca.pem", "certificate": "/elsewhere/me.pem", "key": "me.key"}
    (tmp_path / "ca.pem").write_text("x")
    document = {"control": "a", "overlays": {"a": {"host": "h", "port": 1, "tls": tls}}}
    brokers.write_text(json.dumps(document))
    brokers.chmod(0o600)
    (tmp_path / "anchors.json").write_text(
        json.dumps({"root_version": 1, **dict.fromkeys(("policy", "notice", "lease", "receipt"),
                                                       "A" * 43)})
    )  # fmt: skip
    create_profile(
        tmp_path / "p",
        handle="p-1",
        domain="flights",
        brokers_file=brokers,
        anchors_file=tmp_path / "anchors.json",
    )
    assert not Profile.load(tmp_path / "p").enrolled
    # Files beside the brokers file are found there, others where they are named.
    found = BrokersFile.load(brokers).overlay("a").tls
    assert found is not None
    assert found.ca == str(tmp_path / "ca.pem")
    assert (found.certificate, found.key) == ("/elsewhere/me.pem", "me.key")
