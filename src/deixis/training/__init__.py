"""Training: one loop, checkpoints, recipes and model cards. It imports no method and no run."""
