"""The survey: measurements of synchronisation on each device of a machine, as one record."""
