"""Snapshots: bitmaps and the tag index against matching one by one."""

from __future__ import annotations

import dataclasses

import pytest
from bitarray import frozenbitarray
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.control.sync import Identity, open_verified
from brokers.snapshot import DomainSnapshot, Rule, RuleIndex, build_snapshot
from policyengine.anonset import Parameters, match
from policyengine.bundles import OpenedBundle
from policyengine.errors import RejectedError
from tests.support.data_plane import Organisation, airport


def opened(organisation: Organisation, name: str, revision: int = 1) -> OpenedBundle:
    address = f"agent:{name}"
    identity = Identity(
        address,
        organisation.public_keys(address).sealing,
        organisation.authority.anchors(),
    )
    sealed = organisation.bundle(address, revision)
    return open_verified(sealed.message, domain=organisation.domain, identity=identity)


def snapshot_of(organisation: Organisation, name: str) -> DomainSnapshot:
    keys = organisation.agents[name].keys
    return build_snapshot(opened(organisation, name), sealing_key=keys.sealing)


def test_authorised_sets_are_what_matching_one_by_one_gives() -> None:
    organisation = airport()
    content = organisation.agent_content("beta")
    snapshot = snapshot_of(organisation, "beta")
    epoch = content.epochs[0]
    parameters = Parameters.from_json(epoch.parameters)
    positions = snapshot.epochs[1].positions
    held = {
        (rule.policy, rule.tags): rule
        for index in snapshot.epochs[1].rules.values()
        for rule in (*index.always, *(r for rules in index.by_tag.values() for r in rules))
    }
    # The content is encoded anew for each bundle: compare by what the subjects are.
    fresh = {
        (rule.policy, frozenset(rule.event_tags)): {
            subject.handle
            for subject in epoch.subjects
            if any(match(rule.encoded, one, parameters).granted for one in subject.encoded)
        }
        for rule in epoch.rules
    }
    got = {
        place: {handle for handle, bit in positions.items() if rule.authorised[bit]}
        for place, rule in held.items()
    }
    assert got == fresh
    assert got["airports-publish", frozenset()] == set()
    assert {"p-kiosk"} in got.values()


def test_rules_hold_for_the_sub_tree_and_not_above_it() -> None:
    epoch = snapshot_of(airport(), "beta").epochs[1]
    assert {rule.policy for rule in epoch.index("publish", "Departure").always} == {
        "airports-publish",
        "kiosk-publish",
    }
    assert {rule.policy for rule in epoch.index("publish", "Flight").always} == {"airports-publish"}
    assert epoch.index("publish", "Zeppelin").matching(frozenset()) == []


TAGS = st.frozensets(st.sampled_from([bytes([n]) * 16 for n in range(6)]), max_size=5)


@given(st.lists(TAGS, max_size=12), TAGS)
@settings(max_examples=300, deadline=None)
def test_the_tag_index_finds_exactly_the_rules_whose_tags_are_all_there(
    rules: list[frozenset[bytes]], tags: frozenset[bytes]
) -> None:
    from brokers.snapshot import index_of

    made = [Rule(str(i), held, None, frozenbitarray()) for i, held in enumerate(rules)]
    index: RuleIndex = index_of(made)
    found = sorted(rule.policy for rule in index.matching(tags))
    assert found == sorted(rule.policy for rule in made if rule.tags <= tags)


def test_keys_are_opened_by_state() -> None:
    organisation = airport()
    organisation.key_states = {1: "draining", 2: "current", 3: "staged", 4: "retired"}
    snapshot = snapshot_of(organisation, "alpha")
    assert snapshot.sealing_keys() == {"tail-key": (2, organisation.attribute_key("tail-key", 2))}
    assert set(snapshot.opening_keys()) == {("tail-key", epoch) for epoch in (1, 2, 3)}
    assert set(snapshot.opening_overlay_keys()) == {1, 2, 3}
    current = snapshot.sealing_overlay_key()
    assert current is not None
    assert current.key == organisation.overlay_key("a", 2)
    assert organisation.overlay_key("a", 2).hex() not in repr(snapshot)


def test_retired_epochs_are_not_even_held() -> None:
    organisation = airport()
    organisation.epochs = {1: "retired", 2: "current"}
    assert set(snapshot_of(organisation, "alpha").epochs) == {2}


def test_a_content_that_contradicts_itself_is_refused() -> None:
    organisation = airport()
    bundle = opened(organisation, "alpha")
    broken = [
        {"types": bundle.content.types[1:]},  # a parent is gone
        {"types": ()},
        {
            "epochs": (
                dataclasses.replace(bundle.content.epochs[0], parameters={"encoding": "bloom"}),
            )
        },
        {"wraps": (dataclasses.replace(bundle.content.wraps[0], group="key:other"),)},
    ]
    for change in broken:
        changed = dataclasses.replace(bundle, content=dataclasses.replace(bundle.content, **change))
        with pytest.raises(RejectedError) as refused:
            build_snapshot(changed, sealing_key=organisation.agents["alpha"].keys.sealing)
        assert refused.value.reason == "malformed"


def test_an_epoch_without_subjects_authorises_nobody() -> None:
    organisation = airport()
    organisation.clients = {}
    rules = snapshot_of(organisation, "alpha").epochs[1].index("publish", "Flight").always
    assert [len(rule.authorised) for rule in rules] == [0]
