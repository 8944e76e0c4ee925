"""Plain text on a terminal or in a pipe: what the command line and the tour print with."""
