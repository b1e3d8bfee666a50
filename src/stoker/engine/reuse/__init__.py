"""Reuse of Spark sessions and runner processes by one task after another.

Why: starting a process, opening a session and compiling a query in a fresh class loader each cost
more than a small task itself. A task that can leave nothing behind, neither in its process nor in
its session, hands both to the next task.

The risk: code or state of one job reaching another. Every rule here is therefore an allow-list:
whatever is not known to be harmless gets a session and a process of its own. The price is the code
of this package and its reliance on private attributes of PySpark, which
`tests/unit/engine/reuse/test_pyspark_pins.py` pins one by one.

Switch: `runner.tasks: 1`. Then no session starts as a copy of a template, every task runs under
`DedicatedSession`, and each runner ends with its task.

The interface is `SessionPolicy` (`session_policy.py`); `shared_session.py` implements it for tasks
that may share, by the rules of `isolation.py`, `plans.py`, `functions.py` and `sql.py`.
`templates.py` and `connection.py` open sessions.

To delete the package: keep `DedicatedSession` alone in the runner, let `Prepare` lose its template,
and remove `SessionKept`, `SessionEnded.is_reusable` and `RunnerPool.take_back`.
"""
