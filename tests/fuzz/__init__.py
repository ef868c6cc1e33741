"""Attacks that run for as long as one likes; the tests run a few seconds of each."""
