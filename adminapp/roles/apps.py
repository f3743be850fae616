from django.apps import AppConfig


class RolesConfig(AppConfig):
    name = "adminapp.roles"

    def ready(self) -> None:
        from adminapp.core import journal
        from adminapp.identity import ports
        from adminapp.roles import appointing, bulk, checks, coverage, kinds, selectors, sessions

        ports.add_model_check(checks.rules)
        ports.add_model_check(checks.appointment_rules)
        ports.add_model_check(appointing.issuers)
        ports.set_appointer(bulk.appointments)
        journal.on_settle(sessions.settle)
        ports.add_delegable("roles", selectors.role_names)
        ports.add_coverage("role", coverage.role)
        ports.add_coverage("appointment", coverage.appointment)
        ports.add_coverage("appointment-rule", coverage.appointment)
        kinds.register_all()
