"""`tinyref bench`: rows, what they measure, and the comparison of two of them."""
