"""Shows C{twistd} the directory."""

from inventory_directory import InventoryFactory

inventory_directory = InventoryFactory()
