"""From a linear program to the source text of one target language."""
