"""Training: loop, checkpoints, recipes and model cards. Independent of the methods and runs."""
