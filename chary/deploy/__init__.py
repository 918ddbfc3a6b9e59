"""Using a trained policy elsewhere, together with its doubt: files that act without chary, and a server.

What is exported is traced once (`decision`, `graph`) and written in several formats, one module each.
`serve` answers other programs over HTTP, from a run folder or from such a file. Nothing about learning
belongs here.
"""
