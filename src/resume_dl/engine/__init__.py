"""Executes the core's actions and feeds it events; makes no decisions."""
