"""Tests of the shop with pytest: in memory, with a receiver that fails, and with a proxy."""

from __future__ import annotations

import os
from pathlib import Path

from shop import Shop, order_at_once

from msmq.testing import MemoryEstate, ReactorThread
from msmq.testing.pytest_fixtures import StartDouble, StartProxy

DOUBLE = os.environ.get("SHOP_DOUBLE", "127.0.0.8")
PROXY = os.environ.get("SHOP_PROXY", "127.0.0.9")


def test_orders_wait_for_the_warehouse(msmq_estate: MemoryEstate) -> None:
    """An order arrives when the warehouse is up again, an hour later."""
    office = msmq_estate.add("OFFICE")
    warehouse = msmq_estate.add("WAREHOUSE", queues=["orders"])
    warehouse.stop()
    shop = Shop(office.manager, "WAREHOUSE")
    msmq_estate.run(shop.order("chair"))
    msmq_estate.advance(3600)
    warehouse.start()
    msmq_estate.until(lambda: warehouse.waiting("orders"), within=300)
    assert [bytes(view.body) for view in warehouse.take("orders")] == [b"chair"]


def test_an_order_survives_a_lost_connection(msmq_double: StartDouble, msmq_reactor: ReactorThread) -> None:
    """The connection is closed when the order arrives; the order is sent again, and received once."""
    double = msmq_double('[[fault]]\naction = "close"\ncount = 1', address=DOUBLE)
    msmq_reactor.call(lambda: order_at_once(DOUBLE, "chair"))
    double.wait_for(lambda event: event.kind == "received")
    assert len([event for event in double.events if event.kind == "arrived"]) == 2
    assert len(double.received) == 1


def test_what_is_sent(
    msmq_double: StartDouble, msmq_proxy: StartProxy, msmq_reactor: ReactorThread, tmp_path: Path
) -> None:
    """An order has the label by which the warehouse sorts; the capture can be opened in Wireshark."""
    msmq_double(address=DOUBLE)
    proxy = msmq_proxy(DOUBLE, address=PROXY, capture=tmp_path / "order.pcap")
    msmq_reactor.call(lambda: order_at_once(PROXY, "chair"))
    sent = proxy.wait_for(lambda packet: packet.fields.get("packet") == "UserMessage")
    assert sent.fields["MessagePropertiesHeader"]["Label"] == "order"
    assert (tmp_path / "order.pcap").stat().st_size > 500
