"""Chatting: the conversation, the composer and the session between them."""
