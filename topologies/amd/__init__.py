"""What AMD's tools print: rocm-smi and amd-smi."""
