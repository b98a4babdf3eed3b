"""Shows C{twistd} the broker; every C{twistd} imports this file, so it only names a module."""

from twisted.application.service import ServiceMaker

orders = ServiceMaker("orders", "orders_service", "Books orders", "orders")
