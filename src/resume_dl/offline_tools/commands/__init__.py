"""The command lines of the tools: ``main(arguments, script)`` of each returns the exit code."""
