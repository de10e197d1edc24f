"""`tinyref new-backend`: a package that conforms as it is written, to be changed part by part."""
