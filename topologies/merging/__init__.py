"""Several sources about one machine as one."""
