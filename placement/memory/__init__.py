"""Memory of a role on a GPU and on its host, moment by moment."""
