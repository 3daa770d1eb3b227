"""Documents as plain values: the text of YAML and JSON, and parts of a machine as such values."""
