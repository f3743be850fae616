"""After another key-encryption key: every wrapped key in the database is renewed, and opens."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from django.core.management import call_command

from adminapp.distribution import blindepochs, services
from adminapp.distribution.models import BlindEpoch, EncodingKey
from adminapp.identity.models import Domain
from adminapp.trustgroups.models import KeyEpoch
from policyengine.primitives.rand import SYSTEM_RANDOM
from tasks.authority.__main__ import main
from tasks.authority.store import rotate_store
from tests.support.audiences import Plane, state_of
from tests.unit.distribution.conftest import load


def rewrapped() -> str:
    out = StringIO()
    call_command("rewrap_keys", stdout=out)
    return out.getvalue()


def wraps() -> list[str]:
    return [
        wrapped
        for model in (KeyEpoch, EncodingKey, BlindEpoch)
        for wrapped in model.objects.exclude(wrapped="").values_list("wrapped", flat=True)
    ]


def test_every_key_is_wrapped_anew_and_the_old_one_may_go(
    plane: Plane, live_authority: Path
) -> None:
    domain = load(plane, "heating")
    plane.settle()
    # Nothing is hidden there; the epoch's master is wrapped like any other key.
    blindepochs.ensure(domain)
    before = wraps()
    count = len(before)
    assert count >= 3
    assert f"0 of {count} keys" in rewrapped()
    state = state_of(live_authority)
    number = rotate_store(state, SYSTEM_RANDOM)
    assert f"{count} of {count} keys" in rewrapped()
    assert all(each.startswith(f"{number}.") for each in wraps())
    assert f"0 of {count} keys" in rewrapped()
    # Nothing is left under the old one: all of the domain's keys are made into bundles without it.
    assert main(["retire-kek", str(number - 1), "--state", str(state)]) == 0
    domain.refresh_from_db()
    Domain.objects.filter(pk=domain.pk).update(revision=domain.revision + 1)
    assert services.compile_domain(domain.pk) == domain.revision + 1
