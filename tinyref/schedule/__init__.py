"""From the tensor graph of the requested outputs to an ordered list of kernels."""
