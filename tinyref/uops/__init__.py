"""The IR: nodes, op table, rules, rewriting, lowering, linearising, the interpreter."""
