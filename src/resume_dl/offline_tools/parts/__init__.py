"""The parts of a file, joined into the whole file.

``X.tar.parts.json`` lists the parts and their digests. Every part is hashed; good ones are written to their place in
``X.tar.joining``. A later run hashes that file again and needs only the parts that were missing or damaged, even if
others have been removed meanwhile. Once it is complete and has its digest, the file gets its name.
"""
