"""Where a call runs: model, endpoint, queue, and the way there and back. Never who is calling.

It holds nothing that it cannot rebuild from the fleet watch and its own traffic.
"""
