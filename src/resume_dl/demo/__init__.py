"""The built-in demo: a small channel, three flaky mirrors, an interruption and a resume. Nothing outside is touched."""
