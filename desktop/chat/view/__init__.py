"""The conversation as it is read: text laid out and painted by the view itself, only where it is visible."""
