"""Corpora: many images from any source through one pipeline, with an output that an interrupted run continues."""
