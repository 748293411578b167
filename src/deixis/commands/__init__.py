"""One file per verb of the command line: it reads options, calls the library and talks to people."""
