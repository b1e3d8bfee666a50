"""`python -m bench [CASE…]`: measures Stoker against its aims and, in many cases, a reference."""

import sys

from bench import (
    burst,
    classic_start,
    command_line,
    failover,
    job_list,
    master,
    memory,
    metrics,
    quiet_streams,
    restart,
    savepoint,
    small_job,
    submissions,
    throughput,
)

CASES = {
    "burst": burst.run,
    "classic-start": classic_start.run,
    "command-line": command_line.run,
    "failover": failover.run,
    "job-list": job_list.run,
    "master": master.run,
    "memory": memory.run,
    "metrics": metrics.run,
    "quiet-streams": quiet_streams.run,
    "restart": restart.run,
    "savepoint": savepoint.run,
    "small-job": small_job.run,
    "submissions": submissions.run,
    "throughput": throughput.run,
}


def main() -> int:
    chosen = sys.argv[1:] or list(CASES)
    if {"-h", "--help"} & set(chosen):
        print(f"usage: python -m bench [CASE…]\n\nThe cases are: {', '.join(CASES)}.")
        return 0
    unknown = [name for name in chosen if name not in CASES]
    if unknown:
        print(
            f"unknown case {', '.join(unknown)}; the cases are: {', '.join(CASES)}", file=sys.stderr
        )
        return 2
    verdicts = []
    for name in chosen:
        print(f"== {name}", flush=True)
        verdicts += CASES[name]()
    print("== results and aims")
    for verdict in verdicts:
        print(verdict)
    return 0


if __name__ == "__main__":
    sys.exit(main())
