"""Losses of the captioners: one loss, one file, one test; plain functions that add up."""
