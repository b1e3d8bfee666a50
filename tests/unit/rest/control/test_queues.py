"""Requests about queues and for draining task executors."""

from stoker.testing.rest import Master
from stoker.testing.sample_jobs import EXECUTOR, RUNNING


async def test_queues_are_listed_with_limits_and_waiting_jobs() -> None:
    async with Master().in_process() as http:
        answer = await http.get("/v1/queues")
    assert answer.json() == {
        "queues": [
            {
                "name": "nightly",
                "running": 1,
                "max_running": 1,
                "slots": 2,
                "max_slots": None,
                "waiting": [RUNNING],
                "slots_in_use": 2,
                "waiting_for_slots": 0,
            }
        ]
    }


async def test_a_task_executor_is_drained_with_or_without_a_time_limit() -> None:
    master = Master()
    async with master.in_process() as http:
        assert (await http.post(f"/taskmanagers/{EXECUTOR}/drain")).status_code == 202
        timely = await http.post(f"/taskmanagers/{EXECUTOR}/drain", params={"timeout": "30"})
        assert timely.status_code == 202
        assert (await http.post("/taskmanagers/nobody/drain")).status_code == 404
        wrong = await http.post(f"/taskmanagers/{EXECUTOR}/drain", params={"timeout": "-1"})
        assert wrong.status_code == 400
    assert master.dispatcher.drained == [(EXECUTOR, None), (EXECUTOR, 30.0)]
