"""Published ``config.json`` files as TOML, one a model: the fields that sizes follow from, and where they were read."""
