"""What any program needs of a machine: files, the cache, texts of others made harmless."""
