"""What this machine is and has: its conda, its Python and pip, its caches.

The profile leaves the machine, so no host name, user name, path or login is in it. conda is asked as a program and
never imported: whatever Python runs this need not be conda's.
"""
