from django.apps import AppConfig


class RolesConfig(AppConfig):
    name = "adminapp.roles"

    def ready(self) -> None:
        from adminapp.identity import ports
        from adminapp.roles import bulk, checks, coverage, kinds, selectors

        ports.add_model_check(checks.rules)
        ports.set_appointer(bulk.appointments)
        ports.add_delegable("roles", selectors.role_names)
        ports.add_coverage("role", coverage.role)
        ports.add_coverage("appointment", coverage.appointment)
        ports.add_coverage("appointment-rule", coverage.appointment)
        kinds.register_all()
