"""Devices on this host's processor: LLVM in the process, and C through a compiler."""
