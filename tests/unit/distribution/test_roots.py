"""A rotation of online keys: everybody is led to the new root and everything is signed anew."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from adminapp.audit.models import Entry
from adminapp.core import authority as authority_client
from adminapp.core.authority import get_authority
from adminapp.distribution import roots, services
from adminapp.distribution.models import Bundle, Notice
from adminapp.identity.models import Principal
from policyengine.bundles import decode_control, decode_roots, open_root
from policyengine.bundles.rootrequests import open_request
from policyengine.bundles.roots import Root, draft, encode_root
from policyengine.primitives.rand import SYSTEM_RANDOM
from tasks.authority.operations import Operations
from tasks.authority.roots import install_root, request, sign_root
from tasks.authority.server import AuthorityServer
from tasks.authority.store import AuthorityState, create_state
from tests.support.audiences import Plane
from tests.unit.distribution.conftest import load

DENIED = "agent:alpha"


@pytest.fixture
def state(tmp_path: Path, settings: Any) -> Iterator[AuthorityState]:
    """An authority of this test's own, with its self-made root."""
    made = create_state(tmp_path / "state", SYSTEM_RANDOM)
    path = tmp_path / "authority.sock"
    server = AuthorityServer(path, Operations(made))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    settings.AUTHORITY_SOCKET = path
    settings.DRAIN_SECONDS = 0
    yield made
    authority_client.get_authority().close()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def own_plane(db: None, state: AuthorityState) -> Plane:
    """JingFang on a plane under that authority, everybody up to date."""
    plane = Plane()
    load(plane, "heating")
    (pinned,) = decode_roots(get_authority().root().roots)
    for audience in plane.audiences.values():
        audience.root = open_root(pinned)
    plane.settle()
    plane.lease_all()
    return plane


def rotate(state: AuthorityState, *fresh: str) -> Root:
    """The next root, with fresh keys for some roles."""
    now = decode_roots(get_authority().root().roots)[-1].claimed()
    online = open_request(request(state, fresh)).online()
    made = replace(now, version=now.version + 1, **online)
    return install_root(state, sign_root(state, encode_root(draft(made))))


def test_everybody_follows_and_everything_is_signed_anew(
    own_plane: Plane, state: AuthorityState, settings: Any, tmp_path: Path
) -> None:
    plane = own_plane
    assert services.reconcile()["resigned"] == 0
    before = dict(Bundle.objects.values_list("audience", "revision"))
    second = rotate(state, "policy", "lease", "notice")
    # The lease's answer alone leads there.
    plane.lease_all()
    served = [plane.audiences[address] for address in before]
    assert {audience.root for audience in served} == {second}
    assert {audience.leases[-1].root for audience in served} == {2}
    assert services.reconcile()["resigned"] == 1
    plane.settle()
    newest = Bundle.objects.order_by("audience", "-revision").distinct()
    tops = {row.audience: row for row in reversed(newest)}
    assert set(tops) == set(before)
    for address, row in tops.items():
        assert (row.root_version, row.state) == (2, "applied"), address
        assert row.revision > before[address]
        assert plane.audiences[address].bundles["heating"].header.root_version == 2
    assert services.reconcile()["resigned"] == 0
    assert Entry.objects.filter(action="root.followed").count() == 1
    # The authority away holds nothing up.
    settings.AUTHORITY_SOCKET = tmp_path / "nobody"
    assert roots.follow() == 0


def test_who_was_away_is_led_there_by_what_waits_in_its_queue(
    own_plane: Plane, state: AuthorityState
) -> None:
    plane, alpha = own_plane, own_plane.audiences["agent:alpha"]
    alpha.deaf = True
    third = (rotate(state, "policy"), rotate(state, "policy", "lease"))[1]
    services.reconcile()
    plane.work()
    kinds = [decode_control(body).kind for body in plane.queues["pc.control.agent.alpha"]]
    assert kinds[-2:] == ["root", "bundle"]
    alpha.deaf = False
    plane.settle()
    assert alpha.root == third
    assert alpha.bundles["heating"].header.root_version == 3
    assert alpha.refusals == []


def test_a_notice_that_nobody_heard_is_sealed_under_the_new_key(
    own_plane: Plane, state: AuthorityState, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane, alpha = own_plane, own_plane.audiences["agent:alpha"]
    alpha.deaf = True
    victim = Principal.objects.filter(domain__name="heating").order_by("pk").first()
    services.revoke_principal(actor=None, principal=victim, reason="test")
    plane.work()
    # What was sent under the old key is lost on the way.
    plane.queues["pc.control.agent.alpha"].clear()
    rotate(state, "notice")
    alpha.deaf = False
    plane.lease_all()
    monkeypatch.setattr("adminapp.distribution.delivery.RESEND_AFTER", timedelta(seconds=-60))
    services.reconcile()
    plane.settle()
    assert not Notice.objects.filter(audience=DENIED).exclude(state="applied").exists()
    assert victim.handle in alpha.state.denied["heating"]
