"""A user's own measurements: logs and times of stages become factors, and a map says what ran."""
