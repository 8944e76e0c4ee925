"""What holds for every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How fast examples come depends on what else runs on the machine, and says nothing about the code.
settings.register_profile("inferdeck", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("inferdeck")
