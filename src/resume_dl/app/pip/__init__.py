"""The pip side: requirements to wheels, and what pip then does with them."""
