"""The only room that knows httpx; ``resume_dl.transport.client.HttpxTransport`` is its door."""
