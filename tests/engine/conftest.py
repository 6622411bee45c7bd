from __future__ import annotations

import pytest

from engine.orders import Orders
from engine.running import DATA, NAME, Place
from support.own_time import OwnTime


@pytest.fixture
def place(tmp_path):
    """A place whose clock waits with us: times of the tests' policy are short."""
    clock = OwnTime()
    yield Place(tmp_path, clock)
    clock.close()


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
