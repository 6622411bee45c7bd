"""The child process that makes every py-rattler call; ``__main__`` describes the protocol."""
