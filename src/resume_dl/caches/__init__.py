"""Other clients' places: conda's and rattler's package caches, and wheels."""
