"""From messages to token ids, with the model's own template and tokenizer."""
