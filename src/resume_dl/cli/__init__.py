"""The command line: click commands, one module each, loaded on use."""
