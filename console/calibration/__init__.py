"""Measuring a live engine through its own steps."""
