"""Calls whose messages and answers are kept, and what is kept of them over HTTP."""
