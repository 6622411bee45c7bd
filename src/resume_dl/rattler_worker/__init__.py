"""Every py-rattler call, in a child process; ``__main__`` describes the protocol."""
