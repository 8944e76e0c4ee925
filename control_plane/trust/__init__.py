"""Certificates: the home's own authority, what it signs, and what is wrong with those of others."""
