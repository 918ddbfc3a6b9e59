"""Torture: kills, damaged files and hours of work. `make torture` does all of it, tests a little."""
