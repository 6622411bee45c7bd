"""Resolution of requests (specs, requirements, lists) into artifacts, with the indexes that they need."""
