"""Losses of ReIR (Eq. 12): one loss, one file, one test."""
