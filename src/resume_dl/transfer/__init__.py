"""Where artifacts may be asked for, and the engine as a command uses it: mirrors that block us, what a run began."""
