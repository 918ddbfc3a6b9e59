"""Taking a trained policy elsewhere, together with its doubt: files that act without chary.

What is exported is traced once (`decision`, `graph`) and written in several formats, one module each.
Nothing about learning belongs here.
"""
