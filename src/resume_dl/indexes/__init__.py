"""Channel indexes and package indexes: download, kept copies, and the rule of trust."""
