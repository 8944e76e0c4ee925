"""What holds for every test."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# How fast examples come depends on what else runs on the machine, and says nothing about the code.
settings.register_profile("inferdeck", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("inferdeck")

# A shell starts its background jobs with Ctrl-C ignored, which the processes under test would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
