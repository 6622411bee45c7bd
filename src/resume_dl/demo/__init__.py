"""The built-in demo: a small channel, three flaky mirrors, an interruption and a resume. On loopback only."""
