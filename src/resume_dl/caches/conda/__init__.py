"""conda's package cache: entries, records, ``urls.txt`` and ``.partial`` files."""
