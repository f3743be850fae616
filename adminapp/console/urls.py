"""Addresses of the console. What belongs to a domain stands below `/d/<domain>/`."""

from __future__ import annotations

from django.urls import include, path, re_path

from adminapp.console import (
    account,
    agents,
    audit,
    catalog,
    changes,
    classification,
    domains,
    jobs,
    keys,
    live,
    overview,
    policies,
    policy_edit,
    principals,
    revocations,
    revoking,
    roles,
    search,
    session,
    splits,
)

app_name = "console"

_event_types = [
    path("", catalog.index, name="event-types"),
    path("<str:name>/", catalog.detail, name="event-type"),
    path("<str:name>/edit/", catalog.edit, name="event-type-edit"),
    path("<str:name>/save/", catalog.save, name="event-type-save"),
]
_policies = [
    path("", policies.index, name="policies"),
    path("new/", policy_edit.create, name="policy-new"),
    path("new/plan/", policy_edit.plan, name="policy-new-plan"),
    path("new/apply/", policy_edit.apply, name="policy-new-apply"),
    path("check/", policy_edit.check, name="policy-check"),
    path("attributes/", policy_edit.attribute_choices, name="policy-attributes"),
    path("p/<str:name>/", policies.detail, name="policy"),
    path("p/<str:name>/history/", policies.history, name="policy-history"),
    path("p/<str:name>/broker/", policies.broker_view, name="policy-broker"),
    path("p/<str:name>/edit/", policy_edit.edit, name="policy-edit"),
    path("p/<str:name>/plan/", policy_edit.plan, name="policy-plan"),
    path("p/<str:name>/apply/", policy_edit.apply, name="policy-apply"),
    path("p/<str:name>/restore/<int:number>/", policies.restore, name="policy-restore"),
    path("p/<str:name>/delete/", policies.confirm_delete, name="policy-delete"),
    path("p/<str:name>/deleted/", policies.delete, name="policy-deleted"),
]
_principals = [
    path("", principals.index, name="principals"),
    path("new/", principals.create, name="principal-new"),
    path("p/<str:name>/", principals.detail, name="principal"),
    path("p/<str:name>/edit/", principals.edit, name="principal-edit"),
    path("p/<str:name>/revoke/", revoking.revoke, name="principal-revoke"),
    path("p/<str:name>/appoint/", principals.appoint, name="principal-appoint"),
    path(
        "p/<str:name>/appointments/<int:pk>/end/",
        principals.end_appointment,
        name="appointment-end",
    ),
]
_of_domain = [
    path("", domains.detail, name="domain"),
    path("event-types/", include(_event_types)),
    path("keys/", keys.index, name="keys"),
    path("keys/renew/", keys.renew, name="key-renew"),
    path("trust-groups/<str:name>/", keys.save_group, name="trust-group"),
    path("policies/", include(_policies)),
    path("principals/", include(_principals)),
    path("roles/", roles.index, name="roles"),
    path("classification/", classification.index, name="classification"),
    path("classification/<int:pk>/", classification.classify, name="classify"),
    path("splits/", splits.index, name="splits"),
    path("splits/<str:name>/", splits.edit, name="split"),
    path("splits/<str:name>/save/", splits.save, name="split-save"),
    path("splits/<str:name>/remove/", splits.remove, name="split-remove"),
    path("revocations/", revocations.index, name="revocations"),
    path("revocations/<str:uid>/", revocations.detail, name="revocation"),
    path("revocations/<str:uid>/receipt.json", revocations.receipt, name="revocation-receipt"),
    path("change-sets/", changes.index, name="change-sets"),
    path("change-sets/<int:pk>/", changes.detail, name="change-set"),
    re_path(
        r"^change-sets/(?P<pk>[0-9]{1,18})/"
        r"(?P<deed>plan|submit|approve|reject|withdraw|undo)/$",
        changes.decide,
        name="change-set-decide",
    ),
    path("jobs/", jobs.index, name="jobs"),
    path("jobs/<str:uid>/", jobs.detail, name="job"),
]
urlpatterns = [
    path("sign-in/", session.sign_in, name="sign-in"),
    path("sign-out/", session.sign_out, name="sign-out"),
    path("", overview.index, name="overview"),
    path("live/", live.stream, name="live"),
    path("search/", search.index, name="search"),
    path("domains/", domains.index, name="domains"),
    path("d/<slug:domain>/", include(_of_domain)),
    path("agents/", agents.index, name="agents"),
    path("agents/<slug:name>/", agents.detail, name="agent"),
    path("agents/<slug:name>/state/", agents.set_state, name="agent-state"),
    path("audit/", audit.index, name="audit"),
    path("audit/chain/", audit.chain, name="audit-chain"),
    path("audit/<int:sequence>/", audit.detail, name="audit-entry"),
    path("settings/", account.index, name="settings"),
    path("settings/display/", account.display, name="display"),
    path("settings/tokens/", account.create_token, name="token-create"),
    path("settings/tokens/<int:pk>/revoke/", account.revoke_token, name="token-revoke"),
]
