"""Runs the core's actions and feeds it events; decides nothing."""
