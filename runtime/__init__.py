"""Engines, models, sampling, chat and settings. Knows nothing about windows."""
