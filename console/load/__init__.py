"""Traffic for any OpenAI endpoint, and what a client's stopwatch says about it."""
