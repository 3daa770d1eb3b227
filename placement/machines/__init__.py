"""The machine as planning sees it: hosts, capacities, measured links, and where it is read from."""
