"""The command palette: everything that can be done or opened, found by a few letters of its name."""
