"""Profile of this machine: its conda, its Python and pip, its caches.

The profile leaves the machine, so it holds no host name, user name, path or login. conda runs as a program and is
never imported, because this Python need not be conda's.
"""
