"""The conformance suite: ladder, runner, statuses, reports, and the faulty devices."""
