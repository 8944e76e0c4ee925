"""What screens are made of; one widget per file. None of them asks the platform for anything."""
