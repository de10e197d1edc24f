"""Memory: allocation, copies, offsets, gates and red zones."""
