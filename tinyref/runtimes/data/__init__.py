"""Devices that hold data and run no kernels."""
