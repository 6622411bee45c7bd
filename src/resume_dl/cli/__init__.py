"""The command line: click commands, one module each, loaded when asked for."""
