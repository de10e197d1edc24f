"""Scripts that show a wrong kernel to the maintainers of a compiler or driver, without tinyref.

launch: one launch, and its script in each language. languages: which language a device has, and
the launch of a program there. hosts/*.txt: what calls the tool, `$` before each part to fill in.
"""
