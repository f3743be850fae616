"""Enrolment: keys are made here, a person compares a fingerprint, and the folder is ready to run.

Whatever was reached is on disk before the next step is taken: stopped at any moment, the same
command goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from brokers.adapters.brokers_file import BrokersFile, ConfigurationError
from brokers.adapters.enrolment import (
    APPLICATION,
    ENROLMENT,
    TLS,
    Enrolled,
    EnrolmentRefused,
    EnrolmentServer,
    EnrolmentUnreachable,
    Renewer,
    load_application,
    save_application,
)
from brokers.adapters.files import FolderLock, Keys, StateError, private_folder, write_atomically
from brokers.control import enrol
from brokers.policyctl.config import CA_FILE, SERVER
from brokers.policyctl.errors import Exit, Stop
from brokers.policyctl.output import Output
from policyengine.bundles.enrolment import EnrolmentOffer, EnrolmentPlace
from policyengine.errors import PortcullisError
from policyengine.primitives.canonical import unb64

TOKEN = "PORTCULLIS_ENROLMENT_TOKEN"  # noqa: S105 - the name of a variable
_TOKEN = re.compile(r"pce_[A-Za-z0-9_-]{20,200}")
_KEYS = {"agent": "state/keys.json", "client": "keys.json"}
_LAST = {"agent": "agent.toml", "client": "profile.json"}
_PATIENCE = 60.0


def agent(output: Output, args: argparse.Namespace) -> Exit:
    """Enrol an agent: make its keys, have them confirmed, write a folder that is ready to run."""
    return _guarded(lambda: _Enrolment("agent", output, args).run())


def client(output: Output, args: argparse.Namespace) -> Exit:
    """Enrol a publisher's or subscriber's client: its profile folder is ready to use."""
    return _guarded(lambda: _Enrolment("client", output, args).run())


def renew(output: Output, args: argparse.Namespace) -> Exit:
    """Renew the certificate of an enrolled folder now; agents and clients do it by themselves."""

    def run() -> Exit:
        renewer = Renewer(args.folder)
        if args.if_due and not renewer.due():
            output.text("the certificate is in the first half of its life; nothing was done")
            return Exit.OK
        ends = renewer.renew()
        output.text(f"renewed: the certificate holds until {ends.isoformat()}")
        return Exit.OK

    return _guarded(run)


def _guarded(run: Callable[[], Exit]) -> Exit:
    try:
        return run()
    except EnrolmentRefused as error:
        raise Stop(Exit.REFUSED, str(error)) from None
    except EnrolmentUnreachable as error:
        raise Stop(Exit.UNREACHABLE, str(error), ["the same command goes on"]) from None
    except (ConfigurationError, StateError, PortcullisError) as error:
        raise Stop(Exit.ERROR, str(error)) from None
    except OSError as error:
        raise Stop(Exit.ERROR, f"{error.filename}: {error.strerror}") from None


class _Enrolment:
    """One run of the command.

    Args:
        kind: `agent` or `client`.
        output: for results and progress.
        args: of the command line.
    """

    def __init__(self, kind: str, output: Output, args: argparse.Namespace) -> None:
        self._kind = kind
        self._output = output
        self._args = args
        self._folder: Path = args.folder
        environment = args.environment
        url = args.url or args.server or environment.get(SERVER, "")
        if not url:
            raise Stop(Exit.ERROR, f"name the control plane with --url or {SERVER}")
        named = args.ca or environment.get(CA_FILE)
        ca = Path(named).absolute() if named else None
        self._server = EnrolmentServer(url, ca)
        self._brokers_file: Path | None = args.brokers_file
        if self._brokers_file is not None:
            BrokersFile.load(self._brokers_file)

    def run(self) -> Exit:
        private_folder(self._folder)
        lock = FolderLock(self._folder)
        try:
            return self._run()
        finally:
            lock.release()

    def _run(self) -> Exit:
        if (self._folder / _LAST[self._kind]).exists() and not self._waits():
            return self._already()
        keys = Keys.create(private_folder((self._folder / _KEYS[self._kind]).parent) / "keys.json")
        application, offered = self._application(keys)
        if offered is None:
            offered = self._ask(application, keys)
        self._check_brokers(offered.read())
        self._show(application, offered)
        place = self._wait(application, offered, keys)
        self._write(application, offered, place)
        return self._done(place)

    def _waits(self) -> bool:
        return (self._folder / APPLICATION).exists()

    def _already(self) -> Exit:
        held = Enrolled.load(self._folder)
        if held.kind != self._kind:
            raise Stop(Exit.ERROR, f"{self._folder} is enrolled as {held.kind} `{held.name}`")
        self._output.text(f"{self._folder} is enrolled already, as {held.kind} `{held.name}`")
        return Exit.OK

    # asking

    def _application(self, keys: Keys) -> tuple[enrol.Application, enrol.Offered | None]:
        held = load_application(self._folder)
        if held is not None:
            if held[0].kind != self._kind:
                raise Stop(Exit.ERROR, f"{self._folder} waits for another kind of enrolment")
            return held
        made = enrol.apply(
            kind=self._kind,
            name=self._args.name,
            token=self._token(),
            sealing=keys.sealing,
            signing=keys.signing,
        )
        save_application(self._folder, made)
        return made, None

    def _ask(self, application: enrol.Application, keys: Keys) -> enrol.Offered:
        try:
            answer = self._server.post(
                "/enrol", application.record, application.signature, token=self._token()
            )
        except EnrolmentRefused:
            # Nothing waits anywhere: another token begins anew, with the same keys.
            (self._folder / APPLICATION).unlink()
            raise
        try:
            offered = enrol.take_offer(
                enrolment=str(answer["enrolment"]),
                offer=unb64(str(answer["offer"])),
                challenge=unb64(str(answer["challenge"])),
                sealing=keys.sealing,
            )
        except KeyError:
            raise EnrolmentUnreachable("the answer is not that of a control plane") from None
        save_application(self._folder, application, offered)
        return offered

    def _token(self) -> str:
        file: Path | None = self._args.token_file
        text = self._args.token or self._args.environment.get(TOKEN, "")
        if file is not None:
            text = file.read_text(encoding="ascii", errors="replace").strip()
        if not _TOKEN.fullmatch(text):
            raise Stop(
                Exit.ERROR, f"give the token (pce_...) in {TOKEN}, with --token or --token-file"
            )
        return str(text)

    def _check_brokers(self, offer: EnrolmentOffer) -> None:
        if not offer.brokers and self._brokers_file is None:
            raise Stop(
                Exit.ERROR,
                "the control plane does not say where brokers stand",
                ["name a brokers file with --brokers-file; the same command then goes on"],
            )

    # waiting

    def _show(self, application: enrol.Application, offered: enrol.Offered) -> None:
        shown = enrol.compare(application, offered)
        self._output.note(f"fingerprint  {shown}")
        self._output.note("compare it with the control plane's page, and confirm it there if it is")
        self._output.note("the same; if it is another one, refuse it: somebody stands in between")

    def _wait(
        self, application: enrol.Application, offered: enrol.Offered, keys: Keys
    ) -> EnrolmentPlace:
        deadline = time.monotonic() + self._args.wait
        with self._output.progress("waiting for the confirmation", total=None) as show:
            asked = 0
            while True:
                answer = self._question(offered, keys)
                if answer["state"] == "confirmed":
                    return enrol.take_place(
                        EnrolmentPlace.from_json(answer["place"]),
                        application=application,
                        offered=offered,
                        now=datetime.now(UTC),
                    )
                if answer["state"] != "pending":
                    self._over(answer)
                pause = max(0.2, min(_PATIENCE, float(answer["retry_after"])))
                if time.monotonic() + pause > deadline:
                    raise Stop(
                        Exit.WAITING,
                        "nobody has confirmed it yet",
                        ["the same command goes on; the keys stay the same"],
                    )
                asked += 1
                show(asked)
                time.sleep(pause)

    def _question(self, offered: enrol.Offered, keys: Keys) -> dict[str, Any]:
        record, signature = enrol.question(offered, keys.signing)
        answer = self._server.post("/enrol/question", record, signature)
        if not {"state", "place", "reason", "retry_after"} <= answer.keys():
            raise EnrolmentUnreachable("the answer is not that of a control plane")
        return answer

    def _over(self, answer: dict[str, Any]) -> None:
        (self._folder / APPLICATION).unlink()
        raise Stop(Exit.REFUSED, f"{answer['state']}: {answer['reason']}")

    # writing

    def _write(
        self, application: enrol.Application, offered: enrol.Offered, place: EnrolmentPlace
    ) -> None:
        """Everything but the last file, then that one: it is there once all others are."""
        offer = offered.read()
        write_atomically(self._folder / "anchors.json", offer.root)
        self._put(TLS, application.tls_key + place.certificate)
        brokers = self._write_brokers(offer)
        held = Enrolled(
            kind=place.kind,
            name=place.name,
            place=place.place,
            url=self._server.url,
            ca="" if self._server.ca is None else str(self._server.ca),
            keys=_KEYS[self._kind],
            authority=offer.authority,
        )
        held.save(self._folder)
        if self._kind == "agent":
            self._put("agent.toml", _agent_toml(place, brokers))
        else:
            private_folder(self._folder / "state")
            document = {
                "handle": place.name,
                "domain": place.place,
                "brokers_file": brokers,
                "anchors_file": "anchors.json",
            }
            self._put("profile.json", json.dumps(document, indent=1))
        (self._folder / APPLICATION).unlink()

    def _write_brokers(self, offer: EnrolmentOffer) -> str:
        if self._brokers_file is not None:
            return str(self._brokers_file.absolute())
        overlays: dict[str, Any] = {}
        for name, stands in sorted(offer.brokers.items()):
            tls = None
            if stands.ca:
                self._put(f"ca-{name}.pem", stands.ca)
                tls = {"ca": f"ca-{name}.pem", "certificate": TLS, "key": TLS}
            overlays[name] = {"host": stands.host, "port": stands.port, "tls": tls}
        self._put("brokers.json", json.dumps({"control": offer.control, "overlays": overlays}))
        return "brokers.json"

    def _put(self, name: str, text: str) -> None:
        write_atomically(self._folder / name, text.encode())

    def _done(self, place: EnrolmentPlace) -> Exit:
        result = {
            "kind": place.kind,
            "name": place.name,
            "place": place.place,
            "folder": str(self._folder),
        }
        if not self._output.for_people:
            self._output.data(result)
            return Exit.OK
        self._output.text(f"enrolled: {place.kind} `{place.name}` of `{place.place}`")
        path = os.path.join(str(self._folder), _LAST[self._kind])  # noqa: PTH118 - as it was given
        if self._kind == "agent":
            self._output.text(f"run it with: python -m brokers.agent run --config {path}")
        else:
            self._output.text(f"use it with: policyctl subscribe --profile {self._folder} ...")
        return Exit.OK


def _agent_toml(place: EnrolmentPlace, brokers: str) -> str:
    return (
        f'name = "{place.name}"\n'
        f'overlay = "{place.place}"\n'
        'state = "state"\n'
        f"brokers_file = {json.dumps(brokers)}\n"
        'anchors_file = "anchors.json"\n'
        f'enrolment_file = "{ENROLMENT}"\n'
    )
