"""The settings panel, made from the declared settings. Names a setting only where it words a group of them."""
