"""Lessons on a real platform: the stage they play on, and how they are told without a screen."""
