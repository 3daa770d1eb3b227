"""What NVIDIA's tools print: nvidia-smi, dcgmi, and the files of NCCL."""
