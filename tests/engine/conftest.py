from __future__ import annotations

import pytest

from engine.orders import Orders
from engine.running import DATA, NAME, Place


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.fixture
def serve(fault_server, tmp_path):
    """Start a fault server that behaves so; gives it, and a part file with orders for connections to it."""
    opened = []

    def start(*behaviours):
        server = fault_server()
        server.put(f"/{NAME}", DATA)
        if behaviours:
            server.always(0, *behaviours)
        orders = Orders(tmp_path, server.base())
        opened.append(orders)
        return server, orders

    yield start
    for orders in opened:
        orders.close()
