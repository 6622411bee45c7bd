"""Finding artifacts by asking channels and package indexes: what they say, how old it is, and why it is believed."""
