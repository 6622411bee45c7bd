"""What the user has set: mirrors, options, conda's and the environment's own settings. Read only."""
