"""Scripts that show a wrong kernel to the maintainers of a compiler or driver, without tinyref.

launch: one launch, and its script in each language. languages: which language a device has, and
the launch of a program there. export: the script of a case of the suite. hosts/*.txt: what calls
the tool, `$` before each part to fill in.
"""
