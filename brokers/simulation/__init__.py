"""Many agents and clients on one virtual clock: the production code over a simulated network."""
