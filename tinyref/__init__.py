"""tinyref: a small lazy tensor compiler that other compilers and devices are judged by."""
