"""`tinyref fuzz`: campaigns, one case, the score."""
