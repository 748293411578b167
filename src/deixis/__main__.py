"""``python -m deixis``: the command line."""

from deixis.cli import main

main()
