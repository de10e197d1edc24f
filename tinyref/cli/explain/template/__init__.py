"""The parts of the page that `tinyref explain --html` writes."""
