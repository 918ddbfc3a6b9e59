"""Learning in the task itself: a policy acts, what happens goes into a buffer, and critics and policy
learn from it beside the logged data.

`feed` puts the parts together: for the training loop an online run is one more source of batches.
"""
