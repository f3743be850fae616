"""Where the data plane touches the world: STOMP, files and the system's clock."""
