"""Attacks on the program, one file each."""
