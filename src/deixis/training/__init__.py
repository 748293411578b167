"""Training: one loop that a reader can hold in the head."""
