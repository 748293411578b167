"""Verbs of the command line, one file per verb: read options, call the library, print results."""
