"""One run on several processes, each with its own devices."""
