"""Whether this machine can run the platform as it is configured, and what to do where it cannot."""

from __future__ import annotations

from console.doctor.examination import examine
from console.doctor.finding import Finding, Verdict

__all__ = ["Finding", "Verdict", "examine"]
