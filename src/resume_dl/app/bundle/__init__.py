"""The use cases of offline bundles."""
