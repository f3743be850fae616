"""State machines of the control side, without input or output: sync, lease, acknowledge."""
