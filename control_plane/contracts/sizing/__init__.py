"""Sizing: what a model needs of a GPU, in bytes and in seconds, from its published shape alone.

Pure: a ``config.json`` as a dict goes in, figures come out. The planner prints them, the simulator takes its step time
from ``roofline``, lessons explain with them. Nothing here measures; where a figure is an assumption, it says so and
names what it rests on.
"""
