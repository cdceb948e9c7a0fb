"""Chats on disk: SQLite without Qt, and the thread that brings it to the window."""
