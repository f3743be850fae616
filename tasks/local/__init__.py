"""Everything that runs the whole product on one machine: ActiveMQ, the parts, the demo."""
