"""Device maps: written, read, replayed, and taken into a job."""
