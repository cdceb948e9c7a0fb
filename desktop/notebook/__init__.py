"""Notebooks: one text that the model goes on with."""
