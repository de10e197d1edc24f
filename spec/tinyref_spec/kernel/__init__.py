"""Plain kernel forms: views, reduces, matrix products, symbolic sizes, hand-written programs."""
