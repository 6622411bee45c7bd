"""Which connection asks which source for which bytes, within what the whole run may open."""
