"""Lessons on the running system: their format, what they check, and a player without a screen.

Pure but for reading lesson folders and keeping progress: what a lesson does to a platform, it asks of a ``Stage``.
"""
