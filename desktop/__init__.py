"""The application: the Qt window and the command line."""
