"""ActiveMQ's own configuration, rendered from the administration model."""
