"""Read a TRL config file and validate its settings."""
