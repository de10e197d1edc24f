"""Small networks that train."""
