"""The user's settings: mirrors, options, those of conda, pip and the environment."""
