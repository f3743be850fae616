"""Addresses of the API."""

from django.urls import path, re_path
from rest_framework.routers import SimpleRouter

from adminapp.api import (
    access,
    agreements,
    audit,
    catalog,
    changes,
    distribution,
    domains,
    environment,
    event_types,
    explain,
    files,
    imports,
    outbox,
    people,
    platform,
    policies,
    principals,
    privacy,
    representatives,
    roles,
    sessions,
    trustgroups,
    webhooks,
)
from adminapp.api.docs import DocsView, SchemaView
from adminapp.api.views import Nowhere

app_name = "api"

router = SimpleRouter(trailing_slash=False, use_regex_path=False)
for prefix, viewset in (
    ("domains", domains.DomainViewSet),
    ("memberships", people.MembershipViewSet),
    ("delegations", people.DelegationViewSet),
    ("users", people.UserViewSet),
    ("tokens", people.TokenViewSet),
    ("overlays", platform.OverlayViewSet),
    ("agents", platform.AgentViewSet),
    ("principals", principals.PrincipalViewSet),
    ("principal-imports", imports.PrincipalImportViewSet),
    ("subject-attributes", catalog.SubjectAttributeViewSet),
    ("attribute-keys", catalog.AttributeKeyViewSet),
    ("event-types", event_types.EventTypeViewSet),
    ("roles", roles.RoleViewSet),
    ("appointments", roles.AppointmentViewSet),
    ("appointment-rules", roles.AppointmentRuleViewSet),
    ("role-settings", sessions.RoleSettingsViewSet),
    ("sessions", sessions.SessionViewSet),
    ("trust-groups", trustgroups.TrustGroupViewSet),
    ("key-epochs", trustgroups.KeyEpochViewSet),
    ("agreements", agreements.AgreementViewSet),
    ("directory", agreements.DirectoryViewSet),
    ("policies", policies.PolicyViewSet),
    ("representatives", representatives.RepresentativeViewSet),
    ("environment", environment.EnvironmentViewSet),
    ("access", access.AccessViewSet),
    ("explain", explain.ExplainViewSet),
    ("classifications", privacy.ClassificationViewSet),
    ("split-plans", privacy.SplitPlanViewSet),
    ("risk-acceptances", privacy.RiskAcceptanceViewSet),
    ("profiles", privacy.ProfileViewSet),
    ("revisions", distribution.RevisionViewSet),
    ("bundles", distribution.BundleViewSet),
    ("recipients", distribution.RecipientViewSet),
    ("revocations", distribution.RevocationViewSet),
    ("jobs", distribution.JobViewSet),
    ("change-sets", changes.ChangeSetViewSet),
    ("announcements", changes.AnnouncementViewSet),
    ("webhooks", webhooks.WebhookViewSet),
    ("audit", audit.AuditViewSet),
    ("outbox", outbox.OutboxViewSet),
):
    viewset.lookup_value_converter = "int"
    router.register(prefix, viewset, basename=prefix)

urlpatterns = [
    *router.urls,
    path("export", files.ExportView.as_view(), name="export"),
    path("plan", files.PlanView.as_view(), name="plan"),
    path("apply", files.ApplyView.as_view(), name="apply"),
    path("schema", SchemaView.as_view(), name="schema"),
    path("docs", DocsView.as_view(), name="docs"),
    re_path(r"^.*$", Nowhere.as_view(), name="nowhere"),
]
