"""What lies on this machine's disk: part files, journals, locks, and conda's package cache."""
