"""From deltas to what OpenAI's clients read."""
