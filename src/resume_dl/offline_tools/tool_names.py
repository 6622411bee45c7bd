"""The tools by name; apart from what makes their archives, which most of them do not need."""

TOOLS = ("install", "join", "probe", "unpack", "verify")
NAMES = tuple(f"{tool}.py" for tool in TOOLS)
"""File names of the archives."""
INSIDE = "--inside"
"""The argument that makes an archive of any name inspect the packages listed on stdin, in the given folder."""
