"""Studies: the same training in several variants and seeds, each in a run folder, and one table."""
