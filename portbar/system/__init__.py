"""Services of the machine: files, the cache, sanitised text."""
