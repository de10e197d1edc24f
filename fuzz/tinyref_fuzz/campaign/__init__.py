"""Campaigns: numbered cases of one seed, judged in isolated workers, kept in one database."""
