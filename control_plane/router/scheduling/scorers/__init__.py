"""One score each, 0 (worst) to 1 (best). They know nothing of each other."""
