"""Failures that are expected, and what each means for whoever runs an agent."""


class Failure(Exception):
    """Something outside the agent failed; the same run may succeed later."""

    exit_code = 1


class Refusal(Failure):
    """The input or the configuration is wrong; running it again changes nothing."""

    exit_code = 2


class PageFailure(Exception):
    """One target could not be read; the others are still worth reading."""

    def __init__(self, message: str, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient
