"""The order of events: settings, plan, start, loop. `start.py` and `loop.py` tell the whole story."""
