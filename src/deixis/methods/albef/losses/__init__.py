"""Losses of ALBEF and AMC: one loss, one file, one test."""
