"""The ways to combine the values of a sub-group's lanes, a module each."""
