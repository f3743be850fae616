"""Key-policy encryption: group, sharing, keys, negation, delegation, bytes."""
