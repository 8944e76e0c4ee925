"""Inputs that nobody foresaw, at any number: ``python -m tests.fuzz``."""
