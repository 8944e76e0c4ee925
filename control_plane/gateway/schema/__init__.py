"""Request bodies to checked values. What is wrong, unknown or unsupported is refused by name, never dropped."""
