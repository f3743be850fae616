"""What happens to an event: admit, match, restrict, route, deliver. Functions without I/O."""
