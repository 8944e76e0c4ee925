"""The simulated scheduler against vLLM's own, step by step, on seeded traces of requests.

``python -m tests.parity --traces 1000 --seed 0`` runs as many as wanted and shows the first difference.
"""
