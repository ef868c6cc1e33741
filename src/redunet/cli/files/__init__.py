"""What the commands on model files do: teach, withdraw, ask, look inside."""
