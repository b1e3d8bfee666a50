"""The exit codes of the command `stoker`."""

OK = 0
FAILED = 1
"""The job failed or was cancelled, or the command could not do what was asked."""
USAGE = 2
"""The command line, an option or the configuration is wrong; nothing was done."""
FATAL = 2
"""`stoker master` or `stoker task-executor` had started, and then an error ended it."""
INTERRUPTED = 130
"""Ctrl-C."""
