"""Text in and out: strict YAML with places, YAML that people read, files written whole or not at all."""
