"""`tinyref ci`: pipelines of forges, written from a device table."""
