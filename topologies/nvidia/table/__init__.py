"""The box that plain ``nvidia-smi`` prints."""
