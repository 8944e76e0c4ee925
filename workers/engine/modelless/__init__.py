"""What engines without a model share: a tokenizer, invented answers, scripts, and answers as deltas."""
