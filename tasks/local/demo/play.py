"""`make demo`: a fresh copy, the whole story, a report; nothing is left running."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tasks.local.demo import privacy, refusals, revocation, story, traffic
from tasks.local.demo.report import Report, Step
from tasks.local.demo.world import World
from tasks.local.errors import LocalError
from tasks.local.setup.machine import RUNNING_BYTES, check_disk

STEPS: tuple[tuple[str, Callable[[Step, World], None]], ...] = (
    ("the organisations are loaded from their files", story.organisations),
    ("policies are encoded, sealed, pushed and acknowledged", story.distribution),
    ("everybody receives what the oracle says, and nothing else", story.events),
    ("an agent crashes in the middle and catches up", story.crash),
    ("what is wrong is refused, and it shows", refusals.refusals),
    ("a manager edits a policy in the console", story.edited_policy),
    ("a manager revokes a customer", revocation.customer),
    ("and a publisher, whose keys are made worthless", revocation.publisher),
    ("attributes are classified and travel over two overlays", privacy.split),
    ("nothing that matters stands in ActiveMQ's traffic", traffic.search_capture),
)


def play(var: Path, *, keep: bool = False) -> int:
    """Play the story in `var`/work and write `var`/report.json.

    Returns 0 when everything was as expected, else 1. `keep` leaves the work folder, which is
    kept anyway when something differed.
    """
    var = var.resolve()
    work = var / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True, mode=0o700)
    check_disk(shutil.disk_usage(work).free, RUNNING_BYTES, work)
    report = Report(_say)
    try:
        with _stoppable():
            _play(work, report)
    except (KeyboardInterrupt, _Stopped):
        _say("interrupted")
    finally:
        report.close()
        report.write(var / "report.json")
    _say(f"the report: {var / 'report.json'}")
    if report.ok and not keep:
        shutil.rmtree(work, ignore_errors=True)
    elif not report.ok:
        _say(f"logs and captured traffic: {work}")
    return 0 if report.ok else 1


def _play(work: Path, report: Report) -> None:
    # Each part of the product reads its own environment; settings of this shell stay outside.
    for name in [name for name in os.environ if name.startswith("PORTCULLIS_")]:
        del os.environ[name]
    # Time that events of an old epoch are given to arrive; the story counts whether they all do.
    os.environ["PORTCULLIS_DRAIN_SECONDS"] = "5"
    # Its people sign in once; on a slow machine the story may last longer than a password counts.
    os.environ["PORTCULLIS_STEP_UP_SECONDS"] = "86400"
    world = World(work, _say)
    try:
        with report.step(0, "a fresh copy is started") as step:
            world.start()
            names = [part.name for part in world.stack.supervisor.parts]
            step.true(f"{len(names)} processes are up", len(names) == 11, ", ".join(names))
        for number, (title, act) in enumerate(STEPS, start=1):
            with report.step(number, title) as step:
                act(step, world)
    except LocalError as error:
        _say(str(error))
    except Exception as error:  # noqa: BLE001 - whatever it is, it belongs into the report
        _say(f"{type(error).__name__}: {error}")
    finally:
        world.stop()


class _Stopped(BaseException):
    """SIGTERM was received."""


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that everything is stopped on the way out."""

    def stop(_number: int, _frame: object) -> None:
        raise _Stopped

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
