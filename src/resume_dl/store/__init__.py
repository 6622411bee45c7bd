"""Our files on this machine's disk: part files, journals, locks, notes."""
