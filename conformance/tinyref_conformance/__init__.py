"""The conformance suite: ladder, runner, statuses, reports, and the zoo of broken devices."""
