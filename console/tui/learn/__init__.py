"""Lessons on the console: what is said on the one side, the platform that it is about on the other."""
