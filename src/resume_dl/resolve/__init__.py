"""Resolution of specs, lists and files into artifacts."""
