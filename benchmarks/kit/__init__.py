"""What the benchmarks share: measured processes, files, lines of a known speed, verdicts."""
