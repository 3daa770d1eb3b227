"""This host, asked of NVIDIA's driver."""
