"""The command lines of the tools: ``main(arguments, script)`` of each gives the exit code."""
