"""Package indexes and find-links pages, and the gateway through which uv reads them."""
