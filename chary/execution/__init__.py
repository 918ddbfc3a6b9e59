"""How algorithms are executed: questions in one batch, windows of members, devices. No equation belongs
here."""
