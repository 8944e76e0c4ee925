"""Recordings: what a console would be shown of a platform, kept in a file (see README.md) and read again."""
