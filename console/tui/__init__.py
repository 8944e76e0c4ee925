"""The console: a terminal dashboard that shows the platform and operates it."""
