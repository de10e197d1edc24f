"""NVIDIA GPUs: CUDA C++ by NVRTC, launched through the driver's own interface (cuda-bindings)."""
