"""The search through captured traffic finds what stands there, and raises no false alarm."""

from __future__ import annotations

import base64
import socket
import socketserver
import threading
from pathlib import Path

import pytest

from policyengine.primitives.rand import SeededRandom
from tasks.local.capture import CaptureProxy
from tasks.local.search import search

NOISE = SeededRandom(b"noise").token(3_000_000)


def _capture(folder: Path, planted: bytes) -> Path:
    half = len(NOISE) // 2
    (folder / "a-0001-to.bin").write_bytes(NOISE[:half] + planted + NOISE[half:])
    return folder


@pytest.mark.parametrize(
    ("planted", "form"),
    [
        (b'{"tailnum":"N14228"}', "plain"),
        (b"xN14228x", "plain"),
        ("N14228".encode("utf-16-le"), "utf-16"),
        (b"N14228".hex().encode(), "hexadecimal"),
        (base64.b64encode(b'{"tailnum":"N14228","carrier":1}'), "base64"),
        (base64.b64encode(b'{"tailnum": "N14228","carrier":1}'), "base64"),
        (base64.b64encode(b'{"tailnum":  "N14228","carrier":1}'), "base64"),
    ],
)
def test_a_long_text_is_found_in_any_form(tmp_path: Path, planted: bytes, form: str) -> None:
    found = search(_capture(tmp_path, planted), ["N14228", "N99999"])
    assert {finding.text for finding in found.findings} == {"N14228"}
    assert any(form in finding.form for finding in found.findings)
    assert found.size == len(NOISE) + len(planted)
    assert found.texts == 2


def test_words_are_found_in_any_case_and_not_inside_other_words(tmp_path: Path) -> None:
    folder = _capture(tmp_path, b"operating and Customer-X")
    found = search(folder, ["rating", "customer"])
    assert [finding.text for finding in found.findings] == ["customer"]


def test_a_short_text_is_reported_only_beyond_chance(tmp_path: Path) -> None:
    assert search(_capture(tmp_path, b""), ["UA", "EWR", "B6"]).findings == ()
    found = search(_capture(tmp_path, b" ".join([b'"EWR"'] * 20)), ["UA", "EWR", "B6"])
    assert {(finding.text, finding.form) for finding in found.findings} == {
        ("EWR", "plain"),
        ("EWR", "quoted"),
    }
    assert all(finding.times >= 20 > finding.expected for finding in found.findings)


def test_what_the_protocol_itself_says_is_no_finding(tmp_path: Path) -> None:
    folder = _capture(tmp_path, b"SUBSCRIBE\nack:client-individual\nid:1\n")
    assert search(folder, ["individual"]).findings == ()
    folder = _capture(tmp_path, b"SUBSCRIBE\nack:client-individual\nid:individual\n")
    assert [finding.times for finding in search(folder, ["individual"]).findings] == [1]


def test_ciphertext_alone_raises_no_alarm(tmp_path: Path) -> None:
    texts = [f"N{number}UA" for number in range(100, 300)] + ["consumer", "UA", "x1"]
    assert search(_capture(tmp_path, b""), texts).findings == ()


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(4096):
            self.request.sendall(data)


def test_the_proxy_passes_everything_on_and_keeps_it(tmp_path: Path) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        proxy = CaptureProxy(tmp_path, name="a", target=server.server_address[:2])
        proxy.start()
        with socket.create_connection(proxy.address) as link:
            # A text that the network cuts in two is found all the same.
            for piece in (b"begin N14", b"228 end"):
                link.sendall(piece)
                echoed = b""
                while len(echoed) < len(piece):
                    echoed += link.recv(4096)
        proxy.stop()
        server.shutdown()
    assert (tmp_path / "a-0001-to.bin").read_bytes() == b"begin N14228 end"
    assert (tmp_path / "a-0001-from.bin").read_bytes() == b"begin N14228 end"
    assert [f.times for f in search(tmp_path, ["N14228"]).findings] == [2]


def test_the_proxy_closes_when_its_target_is_gone(tmp_path: Path) -> None:
    with socket.socket() as deaf:
        # Bound, so that nobody else takes the port, and not listening: it refuses.
        deaf.bind(("127.0.0.1", 0))
        proxy = CaptureProxy(tmp_path, name="a", target=deaf.getsockname())
        proxy.start()
        with socket.create_connection(proxy.address, timeout=60) as link:
            assert link.recv(1) == b""
        proxy.stop()
