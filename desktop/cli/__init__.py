"""The command line: what is typed, what is printed, and the exit code. Knows no Qt and no engine's inside."""
