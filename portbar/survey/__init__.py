"""The survey: what each device of a machine does between work-groups, as one record."""
