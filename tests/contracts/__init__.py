"""What every provider of an interface must do, ours or a plugin's; one mixin for each interface."""
