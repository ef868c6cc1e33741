"""Files, locks, Ctrl-C, untrusted input, and the log of changes to a file."""
