"""How many inputs a fuzz test takes."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

VARIABLE = "INFERDECK_FUZZ_EXAMPLES"


def bounded(examples: int) -> settings:
    """So many inputs, or as many as the environment says."""
    return settings(
        max_examples=int(os.environ.get(VARIABLE, examples)),
        deadline=None,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.function_scoped_fixture,
            HealthCheck.data_too_large,
            HealthCheck.filter_too_much,
        ],
    )
