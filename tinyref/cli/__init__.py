"""The command line: imports everything lazily; nothing imports it."""
