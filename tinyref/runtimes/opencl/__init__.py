"""Every OpenCL driver, and Oclgrind, a simulator of one whose reports are errors."""
