"""The simulator: an engine without a model, whose steps are those of vLLM."""
