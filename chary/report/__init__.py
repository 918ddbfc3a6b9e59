"""From run folders to figures."""
