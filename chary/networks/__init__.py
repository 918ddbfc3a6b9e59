"""What learners are made of: layers, policies, optimisers, losses and targets. No algorithm, no data."""
