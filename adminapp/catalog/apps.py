from django.apps import AppConfig


class CatalogConfig(AppConfig):
    name = "adminapp.catalog"

    def ready(self) -> None:
        from adminapp.catalog import checks, compatibility, coverage, kinds
        from adminapp.identity import ports

        ports.add_subject_check(checks.subject_values)
        ports.set_subject_reader(checks.subject_reader)
        ports.on_move(checks.declarations_change)
        ports.add_delegable("event_types", coverage.names)
        ports.add_coverage("event-type", coverage.event_type)
        ports.add_model_check(checks.event_types)
        ports.add_model_check(checks.principals)
        ports.add_model_check(compatibility.problems)
        kinds.register_all()
