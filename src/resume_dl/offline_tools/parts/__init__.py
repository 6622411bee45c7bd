"""A file that was cut into parts, put together again.

``X.tar.parts.json`` lists the parts and their digests. Every part is hashed. The good ones are written to their place
in ``X.tar.joining``, so that a later run needs only those that were missing or damaged: what lies in that file is
hashed again and believed, even if its part has been removed meanwhile. Once all is there and the whole has its digest,
the file gets its name.
"""
