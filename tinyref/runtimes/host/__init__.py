"""Devices that are this host's processor: LLVM in the process, C through a compiler."""
