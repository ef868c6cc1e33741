"""Tables and figures for people: nothing is computed here that a record does not hold."""
