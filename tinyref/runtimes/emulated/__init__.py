"""GPUs made of the host, with a memory of their own: from LLVM, from text of C-like languages."""
