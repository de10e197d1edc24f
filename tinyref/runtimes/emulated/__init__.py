"""GPUs emulated on the host, with a separate memory, from LLVM IR and from C-like languages."""
