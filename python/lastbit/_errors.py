"""Exceptions."""


class LastbitError(Exception):
    """Something went wrong outside the mathematics: a file, a device, a lock.

    The message is the one that the command ``lastbit`` prints: what was found, what was expected, what to do.
    """


class InputError(LastbitError, ValueError):
    """An argument, a setting or a file is not what it should be."""
