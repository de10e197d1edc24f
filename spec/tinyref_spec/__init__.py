"""The specification as tables: clauses, rows, cases, references and error rules."""
