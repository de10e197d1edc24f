"""`tinyref explain`: what a program becomes, stage by stage, as text and as a page."""
