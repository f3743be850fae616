"""Set-up does nothing twice and says what to do when it cannot go on."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.local import ports
from tasks.local.activemq import java
from tasks.local.errors import LocalError
from tasks.local.setup import machine, packages, steps

ROOT = Path(__file__).resolve().parents[3]
GIB = 2**30


def test_a_port_in_use_is_named_with_the_way_out() -> None:
    with socket.socket() as taken:
        taken.bind((ports.LOOPBACK, 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert ports.in_use(port)
        with pytest.raises(LocalError) as caught:
            ports.require_free(port, what="the console", how='make run ARGS="--port 8100"')
    assert str(port) in str(caught.value)
    assert 'make run ARGS="--port 8100"' in str(caught.value)


def test_a_free_port_is_free() -> None:
    port = ports.free_port()
    assert not ports.in_use(port)
    ports.require_free(port, what="the console", how="choose")


def test_a_free_port_is_given_once_and_to_no_connection() -> None:
    found = [ports.free_port() for _ in range(50)]
    assert len(set(found)) == len(found)
    least = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(found) < least
    # Another process is not given what this one was given.
    asked = f"from tasks.local import ports; print([ports._reserved(port) for port in {found}])"
    told = subprocess.run(
        [sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == str([False] * len(found))


def test_low_disk_says_how_much_is_missing(tmp_path: Path) -> None:
    machine.check_disk(4 * GIB, 3 * GIB, tmp_path)
    with pytest.raises(LocalError, match=r"low disk: 1\.5 GB are free .* needs 3\.0 GB"):
        machine.check_disk(3 * GIB // 2, 3 * GIB, tmp_path)


def test_an_old_python_is_named() -> None:
    machine.check_python((3, 11, 0))
    with pytest.raises(LocalError, match=r"needs Python 3\.11 or later and `python3` is 3\.9\.2"):
        machine.check_python((3, 9, 2))


def test_no_java_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "JVMS", tmp_path)
    with pytest.raises(LocalError, match="apt-get install openjdk-17-jre-headless"):
        java.find_java()


def test_no_activemq_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(java, "ACTIVEMQ_HOME", tmp_path)
    with pytest.raises(LocalError, match="apt-get install activemq"):
        java.class_path()


def test_missing_packages_are_found_by_what_they_bring() -> None:
    needs = [
        packages.Need("here", "sh"),
        packages.Need("there", "/etc/debian_version*"),
        packages.Need("nowhere", "no-such-command-anywhere"),
        packages.Need("no-file", "/usr/share/no-such-file-*"),
    ]
    assert packages.missing(needs) == ["nowhere", "no-file"]


def test_without_root_and_sudo_the_command_for_root_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    apt = tmp_path / "apt-get"
    apt.write_text("#!/bin/sh\nexit 0\n")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    need = packages.Need("some-package", "no-such-command-anywhere")
    monkeypatch.setattr(packages, "FOR_RUN", (need,))
    with pytest.raises(LocalError, match=r"As root, run: apt-get install .*some-package"):
        packages.install(tmp_path, for_tests=False)


def test_a_failing_step_shows_the_end_of_its_output(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "print('first'); print('the reason'); raise SystemExit(3)"]
    with pytest.raises(LocalError) as caught:
        steps.run(tmp_path, "a step", argv, advice="try this")
    message = str(caught.value)
    assert "status 3" in message
    assert "the reason" in message
    assert "try this" in message
    assert str(tmp_path / "var" / "setup" / "a-step.log") in message


@pytest.mark.parametrize(
    "output",
    [
        "Temporary failure resolving 'mirror.example.org'",
        "npm error code ENOTFOUND",
        "NewConnectionError: Failed to establish a new connection",
    ],
)
def test_no_network_is_recognised(tmp_path: Path, output: str) -> None:
    argv = [sys.executable, "-c", f"print({output!r}); raise SystemExit(1)"]
    with pytest.raises(LocalError, match="no network"):
        steps.run(tmp_path, "fetch", argv)


def test_a_full_disk_is_recognised(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "print('No space left on device'); raise SystemExit(1)"]
    with pytest.raises(LocalError, match="The disk is full"):
        steps.run(tmp_path, "fetch", argv)


def test_a_stamp_holds_for_the_same_inputs_only(tmp_path: Path) -> None:
    stamp = steps.Stamp(tmp_path, "step", [b"one", b"two"])
    assert not stamp.current
    stamp.write()
    assert steps.Stamp(tmp_path, "step", [b"one", b"two"]).current
    assert not steps.Stamp(tmp_path, "step", [b"onet", b"wo"]).current
    stamp.clear()
    assert not stamp.current


def test_set_up_runs_on_a_bare_python() -> None:
    """Before anything is installed there is the standard library and nothing else."""
    code = (
        "import sys; import tasks.local.setup.__main__, tasks.local.clean; "
        "print([name for name in ('django', 'yaml', 'policyengine') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_bootstrap_hands_over_to_what_follows() -> None:
    done = subprocess.run(
        ["sh", "tasks/local/bootstrap.sh", "echo", "handed", "over"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "handed over\n"


def test_the_bootstrap_without_root_and_sudo_says_what_to_do(tmp_path: Path) -> None:
    for name in ("dirname", "id", "apt-get"):
        script = tmp_path / name
        script.write_text('#!/bin/sh\n[ "${0##*/}" = id ] && echo 1000 || echo .\n')
        script.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", str(ROOT / "tasks/local/bootstrap.sh"), "make", "run"],
        cwd=ROOT / "tasks" / "local",
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "apt-get install -y --no-install-recommends make python3" in done.stderr
