"""HTTP/1.1 and ``file://``: the only room that imports httpcore. ``transport.client.HttpTransport`` is its entry."""
