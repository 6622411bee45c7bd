"""What package indexes and find-links pages list, and the gateway through which uv sees it."""
