"""This machine and its files: what it is, its terminal, writing whole files, remembering compiled
programs. Nothing in here knows of learning."""
