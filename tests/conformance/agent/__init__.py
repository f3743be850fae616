"""What every agent must hold against, whatever its control plane does; see README.md."""
