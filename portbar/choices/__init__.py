"""Which way of doing each primitive a device gets, with the reason."""
