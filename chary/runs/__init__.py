"""The run folder: the only room that knows its files, and what they must hold."""
