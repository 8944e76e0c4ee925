"""The simulator: an engine without a model, whose steps are those of vLLM."""

from workers.engine.sim import core

if core.COMPILED is not None:
    __path__.insert(0, str(core.COMPILED))
