"""The console on a recording instead of a platform."""
